"""The student learns what the silos agree on, from public examples alone."""

from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import datasets
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.coordinator.label_rounds import make_student, train_student
from fedct_flwr.datasets import FederatedDataset
from fedct_flwr.models.model_file import promised
from fedct_flwr.types import ABSTAIN, ConfigError, RunError
from fedct_flwr.wire.kinds import HARD


def config(**settings: Any) -> RunConfig:
    given = {key.replace("_", "-"): value for key, value in settings.items()}
    return RunConfig.from_flower({"study": "test", "data": "heart-disease", "student": "decision-tree", **given})


@pytest.fixture(scope="module")
def dataset() -> FederatedDataset:
    return datasets.load(config())


def test_nothing_labeled_is_one_sentence(dataset: FederatedDataset) -> None:
    nothing = np.full(len(dataset.public), ABSTAIN, dtype=np.int16)
    with pytest.raises(RunError, match="none of the 228 public examples has a label"):
        train_student(make_student(config(), dataset.schema, dataset.public), dataset.public, nothing)


def test_a_real_study_may_say_how_its_student_is_trained_and_not_how_silos_are() -> None:
    real = {"data": STUDY, "data_dir": "/s", "roster": "a,b"}
    config(**real, learning_rate=0.01, local_steps=7).check_real()
    with pytest.raises(ConfigError, match="learner-params"):
        config(**real, learner_params='{"C": 2}').check_real()
    with pytest.raises(ConfigError, match="learning-rate"):
        config(**real, student="", learning_rate=0.01).check_real()


def test_the_card_promises_no_more_than_the_labels_do(wording: SnapshotAssertion) -> None:
    assert "epsilon" not in promised(config(), HARD)
    assert promised(config(), HARD)["words"].startswith("Nothing is promised")
    kept = promised(config(protection="dp-linear", epsilon=2.0), HARD)
    assert (kept["epsilon"], kept["delta"]) == (2.0, 1e-5)
    assert kept["unit"] == wording
    assert "privacy sheets" in promised(config(data=STUDY, data_dir="/s", roster="a,b"), HARD)["words"]
