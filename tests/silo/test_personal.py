"""What a real silo's personal model keeps of its lessons, and when, asked directly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.silo.opening import gated
from tests.hospitals import STUDY, restart, write_silo_folder
from tests.silo.test_answers import NETWORK, Silo

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
