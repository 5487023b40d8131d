"""Hospitals with files, an approval and a gate each, as an agent has them; without sockets."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Context, Message, RecordDict

from client_app.main import app as client_app
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.gate import Held
from fedct_flwr.hospital.opening import open_gate
from fedct_flwr.silo.opening import gated
from fedct_flwr.wire.messages import ACTION
from tests.golden.runs import Golden
from tests.hospitals import write_silo_folder

_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(32))
_CODE: Final = "c0de" * 16


@contextmanager
def behind_gates(golden: Golden, folder: Path) -> Iterator[list[Callable[[Message, Context], Message]]]:
    """For each silo of the run what answers for it; nothing for simulated ones."""
    with ExitStack() as stack:
        tables = golden.hospital
        yield (
            []
            if tables is None
            else [answering(write_silo_folder(folder / silo, silo, **tables), stack) for silo in golden.silos]
        )


def answering(
    silo_file: Path, stack: ExitStack, key: Ed25519PrivateKey | None = None
) -> Callable[[Message, Context], Message]:
    config = SiloConfig.read_toml(silo_file)
    study = read_study(config.study)
    log = stack.enter_context(EgressLog.open(config.state, config.silo, key or _KEY))
    approve(log, config, study)
    gate = open_gate(config, study, log, lambda: True)

    def answer(message: Message, context: Context) -> Message:
        """Let in, answered, let out; and only then the personal model learns."""
        run = context.run_id
        if message.metadata.message_type.endswith(ACTION):
            return _sent(gate.add(message.content, run, _CODE), message)
        try:
            request = gate.admit(message.content, run, _CODE)
        except Held as held:
            return _sent(held.record, message)
        # Fresh for each message: what lasts is in files here.
        own = Context(run, context.node_id, {"silo-file": str(silo_file)}, RecordDict(), context.run_config)
        with gated() as afterwards:
            reply = client_app(message, own)
        left = gate.release(reply.content, request, run, _CODE)
        for work in afterwards:
            work()
        return _sent(left, message)

    return answer


def _sent(content: RecordDict | None, message: Message) -> Message:
    assert content is not None, "the gate let nothing out, not even a refusal"
    return Message(content, reply_to=message)
