"""Scores under a promise: one noisy sum of counts at a run's end, through each silo's gate."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.config.study import StudyConfig
from fedct_flwr.coordinator.noisy_sums import of_counts
from fedct_flwr.datasets.federated import first_of
from fedct_flwr.drawing.counts import GRID
from fedct_flwr.hospital.adding import check_sums
from fedct_flwr.labelers import labeler
from fedct_flwr.learners.build import learner_for
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.noisy_sum import _confusion
from fedct_flwr.silo.own import real_site
from fedct_flwr.types import ConfigError, Examples
from tests.hospital.test_drawing import Federation
from tests.sentences import sentence

EPSILON = 60.0
PRIVACY = {"protection": "randomized-response", "epsilon": EPSILON, "delta": 1e-5, "rounds": 1}


class Scoring(Federation):
    """Four hospitals with a protection that have approved scores with noise."""

    def __init__(self, folder: Path, stack: ExitStack, kinds: tuple[str, ...] = ("hard", "scores")) -> None:
        agreed = {"scores": {"records": 400, "epsilon": 2.0}}
        self.open(folder, stack, [*kinds], agreed, {"privacy": PRIVACY})

    def train(self, run: str = "run", *, scores: bool = True, **more: Any) -> RunFolder:
        settings = {"algorithm": "fedct", "num-server-rounds": 1, "report-scores": scores, **more}
        return self.run(run, settings)


def test_scores_are_one_sum_within_its_noise_and_charged(tmp_path: Path) -> None:
    with ExitStack() as stack:
        federation = Scoring(tmp_path, stack)
        folder = federation.train()
        found, true = folder.read_json("result.json")["scores"], np.zeros((2, 2))
        labels = folder.load_checkpoint().targets
        for hospital in federation.silos.values():
            site = real_site(hospital.silo.config, hospital.silo.study)
            learner = learner_for(site.settings, site.silo, site.schema, site.public, site.public.X)
            learner.fit(site.public.X[labels >= 0], labels[labels >= 0])
            np.add.at(true, (site.own_test.y, learner.predict(site.own_test.X)), 1)
        recall = float((true.diagonal() / true.sum(axis=1)).mean())
        assert found["silos"] == 4
        half = (found["balanced_accuracy"]["high"] - found["balanced_accuracy"]["low"]) / 2
        assert abs(found["balanced_accuracy"]["value"] - recall) < 2.5 * half
        # Next to the labels' charge; and no score travels with a reply.
        assert all(silo["scores"] is None for record in folder.rounds() for silo in record["silos"].values())
        assert len(folder.rounds()) == 1
        charges = federation.charges(EPSILON)
        assert federation.train(resume=True).read_json("result.json")["scores"] == found
        assert federation.train("without", scores=False).read_json("result.json").get("scores") is None
        assert [more - before for more, before in zip(federation.charges(EPSILON), charges, strict=True)] == [0] * 4


def test_silos_that_let_no_scores_out_are_named_and_the_run_has_its_labels(tmp_path: Path) -> None:
    with ExitStack() as stack:
        folder = Scoring(tmp_path, stack, ("hard",)).train()
        result = folder.read_json("result.json")
    assert result["status"] == "completed"
    assert "policy" in result["scores"]["missing"]
    assert (folder.path / "labels.csv").exists()


def test_counts_are_of_test_records_alone_and_none_changes_those_of_others(tmp_path: Path) -> None:
    with ExitStack() as stack:
        hospital = Scoring(tmp_path, stack).silos["cleveland"]
        study = hospital.silo.study
        site = real_site(hospital.silo.config, study)
        labels = np.random.default_rng(0).integers(0, 2, len(study.public)).astype(np.int16)

        def counts(**changes: Any) -> Any:
            return _confusion(replace(site, **changes), study, labels)[1]()

        trained_otherwise = counts(private=Examples(-site.private.X[::-1], 1 - site.private.y))
        np.testing.assert_array_equal(counts(), trained_otherwise)
        assert counts().sum() == site.own_test.size * GRID
        # A patient with several test records counts by the first.
        groups = np.arange(site.own_test.size) // 2
        assert counts(test_groups=groups).sum() == len(site.own_test.y[first_of(groups)]) * GRID
        # A record with which the model fails, as it is more than a tree takes.
        X, y = site.own_test
        tree = {"settings": LearnerSettings(name="decision-tree"), "test_groups": None}
        others = counts(own_test=Examples(np.delete(X, 5, axis=0), np.delete(y, 5)), **tree)
        X[5] = 1e200
        np.testing.assert_array_equal(counts(**tree), others)
        assert others.sum() == (len(y) - 1) * GRID


def test_a_budget_without_the_delta_or_a_coordinator_without_the_extra_is_refused_before_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        federation = Scoring(tmp_path, stack)
        own = federation.silos["cleveland"].silo
        less = own.config.model_copy(update={"privacy": own.config.privacy.model_copy(update={"delta": 1e-6})})
        assert "[scores] in study.toml: each record pays" in sentence(ConfigError, check_sums, less, own.study)
        assert own.study.config.scores is not None
        scores = own.study.config.scores.model_copy(update={"epsilon": 30.0})
        much = replace(own.study, config=own.study.config.model_copy(update={"scores": scores}))
        assert "[scores] in study.toml: epsilon 30 is too large" in sentence(ConfigError, check_sums, own.config, much)
        monkeypatch.setattr(labeler, "find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r"\[scores\] in study.toml needs dp_accounting"):
            federation.train()


def test_intervals_hold_what_they_say() -> None:
    rng, true, noise = np.random.default_rng(0), np.array([[120.0, 30.0], [40.0, 160.0]]), 6.0
    inside = 0
    for _ in range(400):
        rows = [rng.multinomial(int(row.sum()), row / row.sum()) for row in true]
        found = of_counts(np.array(rows) + rng.normal(0, noise, (2, 2)), noise)["balanced_accuracy"]
        inside += found["low"] <= 0.8 <= found["high"]
    assert inside >= 365  # 380 expected, and a standard deviation of 4.4


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: study(scores={"records": 299}), "fewer than 300, so noise would move a score by .04 to .15"),
        (lambda: study(scores={"records": 300}), "add the silos' keys under [sums.keys]"),
        (lambda: silo(kinds=["hard", "scores"]), "go next to labels under a promise"),
        (lambda: silo(kinds=["hard", "scores"], protection="dp-linear"), "name a test-file under [data]"),
    ],
)
def test_a_mistake_is_one_sentence(call: Callable[[], Any], said: str) -> None:
    assert said in sentence(ConfigError, call)


def study(**tables: Any) -> StudyConfig:
    return StudyConfig.read({"study": "s", "classes": ["a", "b"], **tables}, "study.toml")


def silo(protection: str = "none", **policy: Any) -> SiloConfig:
    given = {
        "silo": "essen", "data": {"file": "data.csv", "label": "y"}, "learner": {"name": "svm"}, "policy": policy,
        "privacy": {"protection": protection}, "connection": {"superlink": "127.0.0.1:1"},
    }  # fmt: skip
    return SiloConfig.read(given, "silo.toml")
