"""How well columns tell labels, by what others' records or the consensus say."""

import numpy as np
import pytest

from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData
from fedct_flwr.datasets.inspection.data_set import inspect_dataset
from fedct_flwr.datasets.inspection.labels_fit import ConsensusFit, LabelsFit
from fedct_flwr.datasets.schema import Column, FollowUp, Schema
from fedct_flwr.survival import GRADE_NAMES, Times
from fedct_flwr.types import Examples
from tests.survival import made

COLUMNS = [Column("a"), Column("b"), Column("c")]
TURNED = {
    "as they are": lambda y: y,
    "shifted": lambda y: np.roll(y, 1),
    "sorted": np.sort,
    "reversed": lambda y: 1 - y,
}


def records(seed: int, size: int = 200, told: float = 2.0) -> Examples:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, 3))
    return Examples(X, (rng.random(size) < 1 / (1 + np.exp(-told * X[:, 0]))).astype(np.int16))


def spoiled(seed: int, how: str) -> Examples:
    sound = records(seed)
    return Examples(sound.X, TURNED[how](sound.y))


@pytest.mark.parametrize("silos", [2, 3, 6])
@pytest.mark.parametrize("how", TURNED)
def test_the_silo_whose_labels_do_not_fit_is_named_and_no_other(silos: int, how: str) -> None:
    tables = {f"silo-{seed}": records(seed) for seed in range(silos - 1)} | {"last": spoiled(99, how)}
    fit = LabelsFit(tables, COLUMNS, 2)
    named = [silo for silo, *_ in fit.misfits()]
    if silos == 2 and how == "reversed":
        # Of two it is unknown which one is wrong.
        assert [(each.code, each.silo) for each in fit.findings(["no", "yes"])] == [("reversed-labels", "")]
    else:
        assert named == ([] if how == "as they are" else ["last"])
    assert [*fit.areas()] == [*tables]


@pytest.mark.parametrize(("shuffled", "named"), [(False, []), (True, ["trial"])])
def test_a_trial_with_short_follow_up_is_named_only_if_its_outcomes_are_in_wrong_rows(
    shuffled: bool, named: list[str]
) -> None:
    """Signed times called its many censored records early, so it looked reversed."""
    rng = np.random.default_rng(0)
    parts = {f"registry-{number}": made.records(rng, 150, censored=False) for number in range(3)}
    X, times = made.records(rng, 300)
    end = rng.uniform(0.05, 0.4, 300)
    own = Times(np.minimum(times.time, end), times.event & (times.time <= end))
    parts["trial"] = X, Times(*(part[rng.permutation(300)] for part in own)) if shuffled else own
    silos = [SiloData(silo, Examples(X, own.signed), Examples(X[:0], X[:0, 0])) for silo, (X, own) in parts.items()]
    schema = Schema(GRADE_NAMES, tuple(map(Column, "abcd")), follow_up=FollowUp("days", "died"))
    dataset = FederatedDataset("study", schema, PublicSet(X[:20]), tuple(silos), silos[0].test)
    found = inspect_dataset(dataset).findings
    assert [each.silo for each in found if each.code in ("labels-do-not-fit", "reversed-labels")] == named


def test_labels_that_no_column_tells_accuse_nobody() -> None:
    for seed in range(20):
        tables = {f"silo-{n}": records(10 * seed + n, size=40, told=0.0) for n in range(4)}
        assert not [*LabelsFit(tables, COLUMNS, 2).misfits()]


def test_silos_with_few_records_of_a_class_are_left_out() -> None:
    few = Examples(records(1).X[:20], np.int16([1] * 5 + [0] * 15))
    assert LabelsFit({"a": records(2), "b": few}, COLUMNS, 2).silos == []
    assert LabelsFit({"a": records(2), "b": few}, COLUMNS, 2).areas() == {}
    assert LabelsFit({"a": records(2), "b": few, "c": records(3)}, COLUMNS, 2).silos == ["a", "c"]


@pytest.mark.parametrize(
    ("how", "said"),
    [("as they are", ""), ("shifted", "tell nothing of your labels"), ("reversed", "the other way round")],
)
def test_a_silos_own_labels_are_held_against_the_consensus(how: str, said: str) -> None:
    consensus = Examples(X := records(5).X, (X[:, 0] > 0).astype(np.int16))
    fit = ConsensusFit.of(consensus, spoiled(8, how), COLUMNS, 2)
    assert fit is not None
    assert said in fit.words
    assert bool(fit.words) is bool(said)
    other = ConsensusFit.of(Examples(X, (X[:, 1] > 0).astype(np.int16)), spoiled(8, how), COLUMNS, 2)
    assert other is not None
    assert ("as the consensus does" in other.words) is (how != "shifted")
