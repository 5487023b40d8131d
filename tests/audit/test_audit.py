"""Audits of whole runs: the apps, the messages, and what each seat makes of them."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedct_flwr.audit.adversaries import COORDINATOR, MODEL
from fedct_flwr.audit.audit import Audit, How, attack, choose, draw, with_members
from fedct_flwr.audit.words import most_exposed, page
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import ConfigError, DataError, Examples, generator


def examples(rng: np.random.Generator, size: int) -> Examples:
    X = rng.normal(size=(size, 4))
    return Examples(X, (X[:, 0] + rng.normal(size=size) > 0).astype(np.int16))


def noisy(silos: int = 3, size: int = 40) -> FederatedDataset:
    """Labels with much noise, so that learning a record by heart shows."""
    rng = np.random.default_rng(0)
    data = tuple(SiloData(f"silo-{n}", examples(rng, size), examples(rng, 5)) for n in range(silos))
    schema = Schema.numeric(("no", "yes"), ("a", "b", "c", "d"))
    return FederatedDataset("noisy", schema, PublicSet(rng.normal(size=(30, 4))), data, examples(rng, 60))


def visited(dataset: FederatedDataset) -> FederatedDataset:
    """Each private record as a patient who came five times."""

    def of(number: int, silo: SiloData) -> SiloData:
        X, y = silo.private
        groups = 1000 * number + np.repeat(np.arange(len(y)), 5)
        return replace(silo, private=Examples(np.repeat(X, 5, axis=0), np.repeat(y, 5)), groups=groups)

    return replace(dataset, silos=tuple(of(number, silo) for number, silo in enumerate(dataset.silos)))


def config(**settings: object) -> RunConfig:
    given = {"study": "audited", "data": "memory", "num-server-rounds": 1, "learner": "nearest-neighbors"}
    return RunConfig.from_flower({**given, **{key.replace("_", "-"): value for key, value in settings.items()}})


def audited(how: How, dataset: FederatedDataset | None = None, **settings: object) -> Audit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attack(config(**settings), dataset or noisy(), how)


BY_HEART = {"learner": "decision-tree", "pseudo_weight": 0.001, "algorithm": "fedct"}


@pytest.fixture(scope="module")
def by_heart() -> Audit:
    return audited(How(refits=4, candidates=60), **BY_HEART)


def test_a_tree_that_learns_by_heart_gives_all_members_away_to_the_coordinator(by_heart: Audit) -> None:
    name, area = by_heart.of(COORDINATOR).strongest
    assert area.low > 0.6
    assert by_heart.of(COORDINATOR).right.value > 0.65
    assert name in by_heart.of(COORDINATOR).attacks
    assert by_heart.candidates == 60
    assert set(by_heart.silos) == set(by_heart.records)
    assert [one.right for one in by_heart.exposed] == [4] * 10
    first = by_heart.exposed[0]
    assert f"number {first.record} of {first.silo}, is guessed right in 4 of 4 trainings" in most_exposed(by_heart)
    assert "the luckiest of 60 records would be in about 4" in most_exposed(by_heart)
    said = page("a study", by_heart)
    assert said.index(most_exposed(by_heart)) < said.index("Of 100 patients")
    assert "Fewer than 50 means that the attack found nothing" in said


def test_a_model_given_away_tells_what_it_learned_by_heart(by_heart: Audit) -> None:
    assert by_heart.of(MODEL).attacks["gap"].low > 0.6


def test_protected_labels_tell_little_and_no_bound_exceeds_the_promise() -> None:
    found = audited(How(refits=2, candidates=60), protection="dp-linear", epsilon=1.0, algorithm="fedct")
    assert found.lower_epsilon is not None
    assert found.lower_epsilon <= 1.0
    assert found.of(COORDINATOR).right.value < 0.65


def test_probabilities_are_attacked_by_confidence() -> None:
    found = audited(How(refits=3, candidates=60), algorithm="dd", learner="naive-bayes", num_server_rounds=2)
    assert {"confidence", "lira"} <= set(found.of(COORDINATOR).attacks)


def test_members_are_trained_on_and_all_candidates_are_public_where_planted() -> None:
    dataset = noisy()
    candidates = choose(dataset.silos, 30, seed=0)
    members = draw(candidates, dataset.silos, generator(0, "test"))
    held = with_members(dataset, candidates, members)
    out = sum(int((~bits).sum()) for bits in members.values())
    assert sum(s.private.size for s in held.silos) == sum(s.private.size for s in dataset.silos) - out
    assert len(held.public) == len(dataset.public) + sum(map(len, candidates.values()))


def test_too_few_candidates_are_refused() -> None:
    with pytest.raises(DataError):
        choose(noisy(2, 4).silos, 200, seed=0)


def test_a_quantity_is_refused() -> None:
    dataset = noisy()
    quantity = replace(dataset, schema=replace(dataset.schema, classes=(), quantity="days"))
    with pytest.raises(ConfigError, match="days"):
        audited(How(), quantity)


@pytest.mark.parametrize("dataset", [noisy(), visited(noisy())], ids=["records", "patients who came five times"])
def test_the_sums_of_the_joint_labeler_are_attacked_too(dataset: FederatedDataset) -> None:
    settings: dict[str, Any] = {"algorithm": "fedct-joint", "num_server_rounds": 16, "epsilon": 1.0}
    found = audited(How(refits=3, candidates=60), dataset, **settings)
    assert {"gradient", "confidence", "lira"} <= set(found.of(COORDINATOR).attacks)
    assert found.of(COORDINATOR).right.low < 0.6
    assert found.about.epsilon == 1.0
    assert found.lower_epsilon is not None
    assert found.lower_epsilon <= 1.0


def test_a_candidate_patient_is_in_or_out_with_all_records() -> None:
    dataset = visited(noisy())
    candidates = choose(dataset.silos, 30, seed=0)
    members = draw(candidates, dataset.silos, generator(0, "test"))
    held = with_members(dataset, candidates, members)
    for before, after in zip(dataset.silos, held.silos, strict=True):
        assert before.groups is not None
        assert after.groups is not None
        out = before.groups[candidates[before.name][~members[before.name]]]
        assert len(set(out)) == len(out)
        assert set(before.groups) - set(after.groups) == set(out)
        assert after.private.size == before.private.size - 5 * len(out)
