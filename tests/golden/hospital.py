"""Hospitals with files, an approval and a gate each, as an agent has them; without sockets."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Context, Message, RecordDict

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.opening import open_gate
from tests.hospital.gates import through

_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(32))


def answering(
    silo_file: Path, stack: ExitStack, key: Ed25519PrivateKey | None = None
) -> Callable[[Message, Context], Message]:
    """What answers for a silo."""
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
