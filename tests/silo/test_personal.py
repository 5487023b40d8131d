"""What a real silo's personal model keeps of its lessons, and when, asked directly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from fedct_flwr.learners.out_of_fold import Evidence
from fedct_flwr.learners.safeguard import Decision, Safeguard, Trust
from fedct_flwr.scoring.assessment import Recalibration
from fedct_flwr.silo.judgment import Judgment
from fedct_flwr.silo.personal import DecisionKey, read_decision, write_decision
from fedct_flwr.silo.round import gated
from fedct_flwr.types import Examples
from fedct_flwr.wire.content import Instruction
from tests.hospitals import STUDY, restart, write_silo_folder
from tests.silo.test_answers import NETWORK, Silo

FOREST = {"name": "random-forest", "params": {"n_estimators": 20}, "pseudo-weight": "auto"}
pytestmark = pytest.mark.usefixtures("in_a_run")

RUN = 5
SUFFIX = ".safetensors"


def silo_in(folder: Path, run: int = RUN, learner: dict[str, Any] = NETWORK) -> Silo:
    """A silo as after a restart."""
    path = folder / "silo.toml"
    if not path.exists():
        write_silo_folder(folder, learner=learner)
    restart()
    return Silo({"silo-file": str(path)}, run)


@contextmanager
def asked(silo: Silo, number: int, label: int = -1) -> Iterator[tuple[np.ndarray, list[Callable[[], None]]]]:
    """The labels of a round, and what is left to be done afterwards."""
    with gated() as afterwards:
        labels = silo.outcome(silo.instruction(number, label))
    assert isinstance(labels, np.ndarray)
    yield labels, afterwards


def learn(silo: Silo, number: int, label: int = -1) -> np.ndarray:
    """A whole round, with what is done once the answer has left."""
    with asked(silo, number, label) as (labels, afterwards):
        for each in afterwards:
            each()
    return labels


def test_the_model_of_before_is_trained_once_and_leaves_no_trace_in_the_other(tmp_path: Path) -> None:
    once, twice = silo_in(tmp_path / "once"), silo_in(tmp_path / "twice")
    for silo in (once, twice):
        learn(silo, 1, 1)
    (kept,) = (tmp_path / "twice" / "state").glob(f"before-*{SUFFIX}")
    first = kept.read_bytes()
    kept.unlink()
    twice = silo_in(tmp_path / "twice")
    for silo in (once, twice):
        learn(silo, 2, 1)
    assert kept.read_bytes() == first
    model = f"state/model-{STUDY}{SUFFIX}"
    assert (tmp_path / "once" / model).read_bytes() == (tmp_path / "twice" / model).read_bytes()


def test_the_model_of_before_is_that_of_a_run_which_teaches_nothing(tmp_path: Path) -> None:
    silo = silo_in(tmp_path)
    for number in range(1, 11):
        learn(silo, number)
    (before,) = (tmp_path / "state").glob(f"before-*{SUFFIX}")
    assert before.read_bytes() == (tmp_path / "state" / f"model-{STUDY}{SUFFIX}").read_bytes()


@pytest.mark.parametrize("weight", ["auto", 1.0], ids=["guarded", "a number"])
def test_own_records_make_chances_of_what_the_kept_model_ranks(tmp_path: Path, weight: object) -> None:
    silo = silo_in(tmp_path, learner={**FOREST, "pseudo-weight": weight})
    learn(silo, 1)
    path = tmp_path / "state" / f"judgment-{STUDY}.json"
    first = Judgment.read(path)
    assert first is not None
    assert first.chances == "ranks, not chances: it has learned no consensus yet"
    labels = learn(silo, 2, 1)
    found = Judgment.read(path)
    assert found is not None
    assert found.recalibration is not None
    assert found.recalibration.records >= 10
    assert found.chances.startswith("recalibrated on")
    # What leaves is the model's own decision, whatever its chances are.
    again = silo_in(tmp_path / "other", learner={**FOREST, "pseudo-weight": weight})
    with patch.object(Recalibration, "learned", side_effect=AssertionError), asked(again, 1):
        pass
    with patch.object(Recalibration, "learned", side_effect=AssertionError), asked(again, 2, 1) as (other, _):
        assert (other == labels).all()


def test_a_network_that_trains_on_says_that_it_only_ranks(tmp_path: Path) -> None:
    silo = silo_in(tmp_path)
    learn(silo, 1, 1)
    found = Judgment.read(tmp_path / "state" / f"judgment-{STUDY}.json")
    assert found is not None
    assert found.recalibration is None
    assert found.chances.startswith("ranks, not chances: a network")


# --- what a silo's guard decided


GUARDED = {"name": "decision-tree", "params": {"max_depth": 3}, "pseudo-weight": "auto"}
RECORDS = Examples(np.zeros((3, 1)), np.int16([0, 1, 1]))
SUBJECT = DecisionKey(7, bytes(32), bytes([3] * 32), RECORDS)
DECISION = Decision(Trust(0.03, Evidence(-0.1, 0.02, 3), foreign=True), np.int16([1, -1, 0]), 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "judgments" / "essen.decision"
    write_decision(found, SUBJECT, DECISION)
    return found


OTHERS: dict[str, tuple[dict[str, Any], int, bool]] = {
    "another run": ({"run_id": 8}, 3, False),
    "an earlier round": ({"run_id": 8}, 1, True),
    "another model": ({"model_digest": bytes([1] * 32)}, 3, True),
    "another public set": ({"public_fingerprint": bytes([1] * 32)}, 3, True),
    "another label": ({"private": Examples(np.zeros((3, 1)), np.int16([0, 1, 0]))}, 3, True),
    "fewer records": ({"private": Examples(np.zeros((2, 1)), np.int16([0, 1]))}, 3, True),
}


@pytest.mark.parametrize(("other", "number", "resumed"), OTHERS.values(), ids=OTHERS)
def test_it_is_of_one_run_one_model_one_public_set_and_the_same_records(
    path: Path, other: dict[str, Any], number: int, resumed: bool
) -> None:
    assert read_decision(path, SUBJECT._replace(run_id=8), 3, resumed=True) is not None
    assert read_decision(path, SUBJECT._replace(**other), number, resumed=resumed) is None


def test_a_damaged_file_is_no_decision(path: Path) -> None:
    for text in ("", "[]", "{}", '{"round": 1}', "\x00"):
        path.write_text(text)
        assert read_decision(path, SUBJECT, 3, resumed=False) is None
    path.unlink()
    assert read_decision(path, SUBJECT, 3, resumed=False) is None


class Asked:
    """A real silo, restarted before each question, and how often it has weighed labels."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.weighed, self._folder = 0, folder
        anew = Safeguard._decide

        def counted(guard: Safeguard, *args: Any) -> Trust:
            self.weighed += 1
            return anew(guard, *args)

        monkeypatch.setattr(Safeguard, "_decide", counted)

    def learn(self, number: int, changed: int, run: int = 5) -> np.ndarray:
        """A round in which this many labels are no longer those of a first model."""
        silo = silo_in(self._folder, run, GUARDED)
        instruction = silo.instruction(number, 0)
        labels = np.where(np.arange(silo.terms.num_public) % 2, np.int16(1), np.int16(0))
        labels[:changed] = 1 - labels[:changed]
        asked = Instruction(number, instruction.query, labels.astype(np.int16))
        silo.instruction = lambda *_: asked  # type: ignore[method-assign]
        return learn(silo, number)

    def judgment(self) -> Judgment:
        found = Judgment.read(self._folder / "state" / f"judgment-{STUDY}.json")
        assert found is not None
        return found


@pytest.mark.usefixtures("in_a_run")
def test_a_restarted_silo_keeps_its_decision_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silo = Asked(tmp_path, monkeypatch)
    silo.learn(2, 0)
    assert (silo.weighed, silo.judgment().weighed_in) == (1, 2)
    first = silo.judgment()
    silo.learn(3, 1)
    assert (silo.weighed, silo.judgment().weighed_in) == (1, 2)
    assert silo.judgment().round == 3
    # Made-up labels, which the columns do not tell; the records' own are.
    fit = silo.judgment().labels_fit
    assert fit == first.labels_fit is not None
    assert abs(fit.auc - 0.5) < 0.2 < fit.own - 0.5
    assert (silo.judgment().weight, silo.judgment().gain) == (first.weight, first.gain)
    silo.learn(4, 40)
    assert (silo.weighed, silo.judgment().weighed_in) == (2, 4)
    silo.learn(2, 40, run=6)
    assert (silo.weighed, silo.judgment().weighed_in) == (3, 2)


@pytest.mark.usefixtures("in_a_run")
def test_an_answer_that_nobody_took_leaves_no_decision(tmp_path: Path) -> None:
    silo: Silo = silo_in(tmp_path, learner=GUARDED)
    kept = tmp_path / "state" / f"judgment-{STUDY}.decision"
    with asked(silo, 2, 1) as (_, afterwards):
        assert not kept.exists()
        for each in afterwards:
            each()
    assert kept.exists()
