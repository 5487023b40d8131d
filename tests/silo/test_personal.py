"""What a real silo's personal model keeps of its lessons, and when, asked directly."""

from pathlib import Path

import numpy as np
import pytest

from fedct_flwr.silo.context import gated
from tests.hospitals import STUDY, restart, write_silo_folder
from tests.silo.test_answers import NETWORK, Silo

pytestmark = pytest.mark.usefixtures("in_a_run")

SUFFIX = ".safetensors"


def silo_in(folder: Path) -> Silo:
    """A silo as after a restart."""
    path = folder / "silo.toml"
    if not path.exists():
        write_silo_folder(folder, learner=NETWORK)
    restart()
    return Silo({"silo-file": str(path)})


def learn(silo: Silo, number: int) -> None:
    """A whole round, with what is done once the answer has left."""
    with gated() as afterwards:
        assert isinstance(silo.outcome(silo.instruction(number, 1)), np.ndarray)
    for each in afterwards:
        each()


def test_the_model_of_before_is_trained_once_and_leaves_no_trace_in_the_other(tmp_path: Path) -> None:
    once, twice = silo_in(tmp_path / "once"), silo_in(tmp_path / "twice")
    for silo in (once, twice):
        learn(silo, 1)
    (kept,) = (tmp_path / "twice" / "state").glob(f"before-*{SUFFIX}")
    first = kept.read_bytes()
    kept.unlink()
    twice = silo_in(tmp_path / "twice")
    for silo in (once, twice):
        learn(silo, 2)
    assert kept.read_bytes() == first
    model = f"state/model-{STUDY}{SUFFIX}"
    assert (tmp_path / "once" / model).read_bytes() == (tmp_path / "twice" / model).read_bytes()
