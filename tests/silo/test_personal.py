"""What a real silo's personal model keeps of its lessons, and when, asked directly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from fedct_flwr.scoring.recalibration import Recalibration
from fedct_flwr.silo.opening import gated
from fedct_flwr.silo.personal import Judgment
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
