"""A real silo that calibrates the model that it keeps: the labels that leave stay the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.kinds import HARD
from fedct_flwr.learners.calibrated import Calibrated
from fedct_flwr.learners.sklearn import load_model
from tests.hospitals import write_silo_folder
from tests.silo.test_answers import NETWORK, TREE
from tests.silo.test_personal import learn, silo_in

pytestmark = pytest.mark.usefixtures("in_a_run")


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_the_kept_models_are_calibrated_and_the_labels_are_not(tmp_path: Path, method: str) -> None:
    for name, calibration in (("plain", "none"), ("calibrated", method)):
        (tmp_path / name).mkdir()
        silo = silo_in(tmp_path / name, learner={**TREE, "calibration": calibration})
        labels = [learn(silo, 1), learn(silo, 2, label=1)]
        kept = sorted((tmp_path / name / "state").glob("*.skops"))
        # The latest one, and that of before the study.
        assert len(kept) == 2
        calibrated = [isinstance(load_model(path).steps[-1][1], Calibrated) for path in kept]
        assert calibrated == [calibration != "none"] * 2
        if name == "plain":
            before = labels
    np.testing.assert_array_equal(before, labels)


def test_so_are_those_of_a_network_which_trains_on_as_before(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from safetensors.numpy import load_file

    found = {}
    for name, calibration in (("plain", "none"), ("calibrated", "sigmoid")):
        (tmp_path / name).mkdir()
        silo = silo_in(tmp_path / name, learner={**NETWORK, "calibration": calibration})
        labels = [learn(silo, 1), learn(silo, 2, label=1), learn(silo, 3, label=1)]
        kept = sorted((tmp_path / name / "state").glob("*.safetensors"))
        assert len(kept) == 2
        tensors = [load_file(path) for path in kept]
        curves = [{key for key in each if key.startswith("calibration.sigmoid.")} for each in tensors]
        assert [bool(each) for each in curves] == [calibration != "none"] * 2
        weights = [each["steps"] for each in tensors]
        found[name] = (labels, weights)
    np.testing.assert_array_equal(found["plain"][0], found["calibrated"][0])
    np.testing.assert_array_equal(found["plain"][1], found["calibrated"][1])


def test_a_round_of_a_high_number_keeps_no_silo_at_work_for_years(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that began with round 4,000,000,000 had the network's copy learn the question as often."""
    pytest.importorskip("torch")
    write_silo_folder(tmp_path, learner={**NETWORK, "calibration": "sigmoid"}, policy={"max-rounds": 3})
    silo, lessons, cotrain = silo_in(tmp_path), [], type(HARD).cotrain

    def counted(kind: Any, *arguments: Any) -> Any:
        lessons.append(arguments)
        if len(lessons) > 10:
            raise RuntimeError
        return cotrain(kind, *arguments)

    monkeypatch.setattr(type(HARD), "cotrain", counted)
    learn(silo, 4_000_000_000)
    # One for the answer, and three by the copy.
    assert len(lessons) == 4
    assert len(list((tmp_path / "state").glob("model-*.safetensors"))) == 1
