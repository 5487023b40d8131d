"""What a labeler costs and gives: charged before it is drawn, once for each question, wherever the silo is killed."""

import itertools
import os
import shutil
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import DpEvent, NoOpDpEvent
from flwr.app import Context, RecordDict

from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.ledger_file import LedgerFile
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.silo import release
from fedct_flwr.silo.release import STATE
from fedct_flwr.silo.site import FolderState
from fedct_flwr.types import HardLabels, Refusal
from fedct_flwr.wire.content import Instruction, Query
from tests.hospitals import restart
from tests.silo.real import RUN, TERMS, RealSilo, answered

pytestmark = pytest.mark.usefixtures("without_gate")

PROTECTED: dict[str, Any] = {"protection": "dp-linear", "epsilon": 1.0}


PRICE = 0.4


class Drawing:
    """Each answer costs ``PRICE`` and is random; after ``free_after`` of them the last one is given for nothing.

    The dump is all answers that were drawn.
    """

    reads_votes = False

    def __init__(self, free_after: int = 1000) -> None:
        self._free_after = free_after
        self.drawn: list[bytes] = []

    def event(self, asked: Asked) -> DpEvent:
        return pure(PRICE) if len(self.drawn) < self._free_after else NoOpDpEvent()

    def answer(self, asked: Asked, noise: Noise) -> HardLabels:
        if len(self.drawn) < self._free_after:
            self.drawn.append(bytes(octet % 2 for octet in noise.octets(len(asked.positions))))
        return np.frombuffer(self.drawn[-1], dtype=np.uint8).astype(np.int16)

    def dump(self) -> bytes:
        return b"".join(struct.pack("<I", len(drawn)) + drawn for drawn in self.drawn)

    def restore(self, state: bytes) -> None:
        self.drawn = []
        while state:
            (size,) = struct.unpack_from("<I", state)
            self.drawn.append(state[4 : 4 + size])
            state = state[4 + size :]

    def reset(self) -> None:
        self.drawn = []


def drawing(*_: Any) -> Drawing:
    """In place of ``labeler_for``."""
    return Drawing()


@pytest.fixture(autouse=True)
def _set_up(in_a_run: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedct_flwr.labelers.labeler_for", drawing)


class Silo(RealSilo):
    """One with a labeler of which every draw shows."""

    def protect(self, **privacy: Any) -> None:
        self.write(privacy={**PROTECTED, **privacy})

    def ask(self, number: int = 1, run: int = 1, label: int = -1) -> Any:
        return told(self.answer(question(number, label), run)[1])

    @property
    def charges(self) -> int:
        return self.spent.charges if self.spent else 0

    @property
    def drawn(self) -> list[bytes]:
        """All that was drawn, as the labeler keeps it."""
        labeler = Drawing()
        (name,) = FolderState(self.state).names(STATE)
        kept = release._Kept.read(FolderState(self.state).get(name))
        assert kept is not None
        labeler.restore(kept.dump)
        return labeler.drawn


def question(number: int = 1, label: int = -1) -> Instruction:
    return Instruction(number, Query(0, TERMS.num_public), np.full(TERMS.num_public, label, dtype=np.int16))


def told(found: Any) -> Any:
    """Labels as bytes, or the reason of a refusal."""
    return found if isinstance(found, Refusal) else found.astype(np.uint8).tobytes()


@pytest.fixture
def silo(tmp_path: Path) -> Silo:
    return Silo(tmp_path / "cleveland", privacy=PROTECTED)


# --- whose labels leave, and what they cost


def test_what_leaves_is_the_labelers_and_the_model_that_stays_is_the_same(silo: Silo) -> None:
    assert [silo.ask(1)] == silo.drawn
    model = silo.state / "model-heart-disease.skops"
    protected = model.read_bytes()
    shutil.rmtree(silo.state)
    silo.protect(protection="none")
    unprotected = silo.ask(1)
    assert unprotected not in (Refusal.CONFIG, Refusal.INTERNAL)
    assert model.stat().st_size == len(protected)
    assert not (silo.state / "privacy").exists()


def test_an_answer_that_was_kept_back_without_a_protection_never_leaves_under_one(silo: Silo) -> None:
    silo.protect(protection="none")
    bare = silo.ask(1)
    assert isinstance(bare, bytes)
    silo.protect()
    assert silo.ask(1) is Refusal.ROUND
    # Neither in another run: there it is a question to the labeler.
    assert [silo.ask(1, run=2)] == silo.drawn


def test_nothing_is_learned_when_the_budget_is_used_up_as_no_answer_leaves(silo: Silo) -> None:
    for number in (1, 2):
        silo.ask(number)
    model = silo.state / "model-heart-disease.skops"
    before = model.read_bytes()
    assert silo.ask(3, label=1) is Refusal.PRIVACY_BUDGET
    # Nor by a budget that was raised and not approved.
    silo.protect(epsilon=2.0)
    assert silo.ask(3, label=1) is Refusal.LEDGER
    assert model.read_bytes() == before


def test_a_ledger_that_is_lost_with_its_mark_is_charged_again_for_what_the_labeler_has_drawn(
    silo: Silo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedct_flwr.labelers.labeler_for", lambda *_: Drawing(free_after=1))
    restart()
    assert silo.ask(1) == silo.ask(2)
    shutil.rmtree(silo.state / "privacy")
    (silo.state / "ledger.mark").unlink()
    silo.ask(3)
    assert silo.charges == 1


# --- killed


def die_at(point: int) -> Callable[[], None]:
    """Wraps every step of an answer: the process is killed before or after the one of this number."""
    steps = itertools.count()

    def step() -> None:
        if next(steps) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        def around(*arguments: Any, **named: Any) -> Any:
            step()
            result = inner(*arguments, **named)
            step()
            return result

        setattr(owner, name, around)

    for owner, name in (
        (Ledger, "_spend"), (LedgerFile, "_mark_charges"), (Drawing, "answer"), (FolderState, "put"),
        (Ledger, "answered"),
    ):  # fmt: skip
        wrap(owner, name)
    return step


def test_killed_anywhere_it_has_paid_once_and_says_the_same(silo: Silo) -> None:
    """Another run's question comes in between, before the first one comes back."""
    silo.protect(epsilon=2.0)
    silo.ask(9, run=9)
    shutil.copytree(silo.state, silo.folder / "before")
    killed = 0
    for point in itertools.count():
        shutil.rmtree(silo.state)
        shutil.copytree(silo.folder / "before", silo.state)
        restart()
        child = os.fork()
        if child == 0:
            # Nothing of the test's own may run on in here.
            try:
                die_at(point)
                silo.ask(1)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
        killed += 1
        kept = silo.drawn
        other = silo.ask(1, run=2, label=1)
        first = silo.ask(1)
        assert silo.ask(1) == first
        assert silo.ask(1, run=3) == first
        assert silo.drawn[: len(kept)] == kept
        assert len({first, other, *silo.drawn}) == len(silo.drawn) == silo.charges == 3, point
        if len(kept) == 2:  # drawn before it was killed: this is what it says
            assert first == kept[1], point
    assert killed > 10


def test_a_simulated_silo_without_a_runs_folder_promises_nothing_and_answers_nothing(tmp_path: Path) -> None:
    config = {**RUN, **PROTECTED, "run-dir": str(tmp_path / "run")}
    context = Context(1, 7, {"partition-id": 0}, RecordDict(), config)
    assert answered(question(), context)[1] is Refusal.CONFIG
