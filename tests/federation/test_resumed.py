"""A run that ended between answers and checkpoint goes on as if it had not: no network learns a round twice."""

from typing import Any

import numpy as np
import pytest

from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
from fedct_flwr.types import RunError
from tests.federation.conftest import Federation

NETWORKS: dict[str, Any] = {
    "learner": "tests.federation.learners.network,tests.federation.learners.network,decision-tree,decision-tree",
    "learner_params": "{}",
    "local_steps": 5,
    "learning_rate": 0.02,
    "save_models": True,
    "report_scores": True,
}
LABELS: dict[str, Any] = {**NETWORKS, "algorithm": "fedct"}
PROBABILITIES: dict[str, Any] = {**NETWORKS, "algorithm": "prediction-consensus", "trust": "dynamic"}


class Killed(Exception):
    """In place of the signal that ends a process."""


def models(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.models.iterdir() if path.suffix == ".safetensors"}


@pytest.mark.parametrize("settings", [LABELS, PROBABILITIES], ids=["labels", "probabilities"])
@pytest.mark.parametrize("times", [1, 2])
def test_killed_between_answers_and_checkpoint(
    settings: dict[str, Any], times: int, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = federation.run(**settings, run_dir=str(federation.path / "whole"))

    def killed(folder: RunFolder, checkpoint: Checkpoint) -> None:
        if checkpoint.round == 2:
            raise Killed
        save(folder, checkpoint)

    save = RunFolder.save_checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", killed)
        for resume in range(times):
            with pytest.raises(Killed):
                federation.run(**settings, resume=bool(resume))
    resumed = federation.run(**settings, resume=True)
    first, second = resumed.load_checkpoint(), whole.load_checkpoint()
    assert first.round == second.round == 3
    np.testing.assert_array_equal(first.targets, second.targets)
    assert first.state.keys() == second.state.keys()
    for name, value in first.state.items():
        np.testing.assert_array_equal(value, second.state[name])
    assert len(models(resumed)) == 2
    assert models(resumed) == models(whole)
    scores = [
        [{name: silo["scores"] for name, silo in entry["silos"].items()} for entry in folder.rounds()]
        for folder in (resumed, whole)
    ]
    assert scores[0] == scores[1]


def test_networks_that_were_not_kept_cannot_go_on(federation: Federation) -> None:
    settings = {**LABELS, "save_models": False}
    federation.run(**settings, num_server_rounds=2)
    with pytest.raises(RunError, match=r"networks of this run were not kept \(save-models = false\)"):
        federation.run(**settings, resume=True)
    # Nobody is asked any more: there is nothing to go on with.
    federation.run(**settings, num_server_rounds=2, resume=True, student="decision-tree")
