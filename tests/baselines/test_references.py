"""Every silo alone, and all data in one place."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset, SiloData, load
from fedct_flwr.datasets.federated import PublicSet, pool
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.types import Examples

Baseline = Callable[[RunConfig, FederatedDataset, int], Any]


def run_config(**settings: Any) -> RunConfig:
    raw = {"study": "s", "data": "heart-disease", "learner": "decision-tree", "learner-params": '{"max_depth": 3}'}
    return RunConfig.from_flower({**raw, **{key.replace("_", "-"): value for key, value in settings.items()}})


def relabeled(silo: SiloData, *, private: bool = False, test: bool = False) -> SiloData:
    """The silo with healthy and diseased exchanged in one of its parts."""
    turned = {
        name: Examples(part.X, 1 - part.y)
        for name, part, wanted in (("private", silo.private, private), ("test", silo.test, test))
        if wanted
    }
    return replace(silo, **turned)


def predictions(baseline: Baseline, config: RunConfig, dataset: FederatedDataset) -> list[list[int]]:
    """Each silo's, of all test records."""
    learners = [baseline(config, dataset, position) for position in range(len(dataset.silos))]
    return [learner.predict(dataset.test.X).tolist() for learner in learners]


def test_alone_each_silo_knows_only_its_own_private_records() -> None:
    config = run_config()
    dataset = load(config)
    others_changed = replace(
        dataset, silos=(dataset.silos[0], *(relabeled(silo, private=True) for silo in dataset.silos[1:]))
    )
    before = predictions(local_only, config, dataset)
    after = predictions(local_only, config, others_changed)
    assert before[0] == after[0]
    assert all(old != new for old, new in zip(before[1:], after[1:], strict=True))


def test_central_training_knows_every_silos_private_records() -> None:
    config = run_config()
    dataset = load(config)
    before = predictions(centralized, config, dataset)
    for position in range(len(dataset.silos)):
        silos = list(dataset.silos)
        silos[position] = relabeled(silos[position], private=True)
        after = predictions(centralized, config, replace(dataset, silos=tuple(silos)))
        assert all(old != new for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("baseline", [local_only, centralized])
def test_no_baseline_learns_from_test_records(baseline: Baseline) -> None:
    config = run_config()
    dataset = load(config)
    silos = tuple(relabeled(silo, test=True) for silo in dataset.silos)
    changed = replace(dataset, silos=silos, test=pool([silo.test for silo in silos]))
    assert predictions(baseline, config, dataset) == predictions(baseline, config, changed)


@pytest.mark.parametrize("baseline", [local_only, centralized])
def test_a_baseline_learns_from_public_examples_no_more_than_how_to_scale(baseline: Baseline) -> None:
    config = run_config(preprocessing="none")
    dataset = load(config)
    changed = replace(dataset, public=PublicSet(dataset.public.X[:1] * 100))
    assert predictions(baseline, config, dataset) == predictions(baseline, config, changed)


def test_one_deterministic_learner_on_all_data_is_the_same_at_every_silo() -> None:
    config = run_config(learner="logistic-regression", learner_params="{}")
    dataset = load(config)
    first, *others = predictions(centralized, config, dataset)
    assert all(other == first for other in others)
