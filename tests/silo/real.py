"""A real silo in a folder, whose client app is asked directly."""

from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict

from client_app.main import app
from fedct_flwr.config.run import RunConfig
from fedct_flwr.privacy.budget import DATA_SET
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.wire.codec import decode_reply, encode_instruction
from fedct_flwr.wire.content import Instruction
from fedct_flwr.wire.messages import from_record, to_record
from tests.hospitals import STUDY, restart, write_silo_folder

RUN: dict[str, Any] = {"study": STUDY, "data": STUDY, "learner": "decision-tree", "save-models": False}
TERMS = simulated_site(RunConfig.from_flower(RUN), 0).terms


class RealSilo:
    """``tables`` are those of ``silo.toml`` that a test does not change."""

    def __init__(self, folder: Path, **tables: dict[str, Any]) -> None:
        self.folder, self.state = folder, folder / "state"
        self._tables = {"learner": {"name": "decision-tree"}, **tables}
        self.write()

    def write(self, **tables: dict[str, Any]) -> None:
        """Write ``silo.toml`` (again), and forget what the process keeps in memory."""
        write_silo_folder(self.folder, **{**self._tables, **tables})
        restart()

    def answer(self, instruction: Instruction, run: int = 1, **settings: Any) -> tuple[bytes, Any]:
        """The bytes of an answer, and what is in it, or why there is none."""
        node = {"silo-file": str(self.folder / "silo.toml")}
        return answered(instruction, Context(run, 7, node, RecordDict(), {**RUN, **settings}))

    @property
    def spent(self) -> Any:
        with Ledger(self.state) as ledger:
            return ledger.spent(STUDY, DATA_SET)


def answered(instruction: Instruction, context: Context) -> tuple[bytes, Any]:
    """The same of any silo."""
    message = Message(to_record(encode_instruction(instruction, TERMS)), dst_node_id=7, message_type="train")
    payload = from_record(app(message, context).content)
    return payload, decode_reply(payload, TERMS, instruction).outcome
