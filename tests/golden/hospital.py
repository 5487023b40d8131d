"""Hospitals with files, an approval and a gate each, as an agent has them; without sockets."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Context, Message, RecordDict

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.opening import open_gate
from tests.golden.runs import Golden
from tests.hospital.gates import through
from tests.hospitals import write_silo_folder

_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(32))


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
        # Fresh for each message: what lasts is in files here.
        own = Context(context.run_id, context.node_id, {"silo-file": str(silo_file)}, RecordDict(), context.run_config)
        return Message(through(gate, message, own), reply_to=message)

    return answer
