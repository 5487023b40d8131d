"""Rules that no table names: functions of the votes, and classes of one's own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fedct_flwr import IID, ConfigError, DataError, Dirichlet, FedCT, RunError, repeat, simulate
from fedct_flwr.algorithms import ALGORITHMS
from fedct_flwr.algorithms.fedct import LabelSharing, Plurality, asking
from fedct_flwr.config.run import RunConfig
from fedct_flwr.consensus.counting import Consensus, Decide, counting, plurality
from fedct_flwr.simulation.run import Run
from fedct_flwr.simulation.silos import divided


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    """What a test adds is known to none after it."""
    before = dict(ALGORITHMS)
    yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)


def table(n: int = 160) -> tuple[NDArray[Any], NDArray[Any]]:
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, X[:, 0] > 0


def run(rule: Any, **more: Any) -> Run:
    settings = {"partition": IID(3), "learner": "naive-bayes", "rounds": 1, "progress": False, **more}
    return simulate(table(), algorithm=FedCT(rule), **settings)


def test_a_function_of_the_votes_decides() -> None:
    seen: list[NDArray[np.int64]] = []

    def last_silo(votes: NDArray[np.int64]) -> NDArray[np.int64]:
        seen.append(votes)
        return votes[-1]

    found = run(last_silo)
    assert [votes.shape for votes in seen] == [(3, 40)]
    np.testing.assert_array_equal(found.consensus, seen[0][-1].astype(bool))
    assert "FedCT (last_silo)" in repr(found)
    bound = partial(last_silo)
    np.testing.assert_array_equal(run(bound).consensus, found.consensus)


def test_votes_are_in_the_order_of_the_runs_silos_and_an_absent_one_abstains() -> None:
    rule = asking(lambda votes: votes[1], 2, "second")
    state = rule.init(["zeta", "s10", "s9"])
    ballots = [("s9", np.int16([0, 0])), ("s10", np.int16([1, 0]))]
    nothing, rng = np.int16([-1, -1]), np.random.default_rng(0)
    assert rule.apply(ballots, nothing, state, rng)[0].tolist() == [1, 0]
    assert rule.apply(ballots[:1], nothing, state, rng)[0].tolist() == [-1, -1]


def test_a_function_is_known_by_its_code_defaults_and_closure() -> None:
    def of(silo: int, least: float = 0.5) -> Any:
        return lambda votes, least=least: votes[silo]

    first, same, *others = (FedCT(rule).rule.name for rule in (of(0), of(0), of(1), of(0, 0.6), partial(of(0)), max))
    assert first == same
    assert len({first, *others}) == 5
    with pytest.raises(ConfigError, match="its rule is a function, and files hold none"):
        RunConfig.from_flower({"study": "s", "data": "heart-disease", "algorithm": "fedct-own-0-first"})


@dataclass(frozen=True)
class Lead(LabelSharing):
    """A rule with a setting."""

    name = "fedct-lead"
    title = "FedCT"
    lead: int = 2

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        return counting(num_classes, lambda counts, incumbent, rng: np.full_like(incumbent, self.lead - 2))


def test_a_class_with_fields_needs_no_registry() -> None:
    assert run(Lead()).consensus.tolist() == [False] * 40
    assert run(Lead(lead=3)).consensus.tolist() == [True] * 40


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (3, ConfigError, "give a rule such as DawidSkene"),
        (Plurality, ConfigError, "give a rule such as DawidSkene"),
        (lambda votes: votes, RunError, r"of shape \(40,\)"),
        (lambda votes: votes[0] + 5, RunError, "outside of -1 to 1"),
        (lambda votes: votes / 0.5, RunError, "whole numbers"),
        (lambda votes: votes["x"], RunError, "IndexError"),
    ],
)
def test_what_is_no_rule_is_refused(rule: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(rule)


def test_the_engine_cannot_have_it() -> None:
    with pytest.raises(ConfigError, match="loopback"):
        run(lambda votes: votes[0], engine="flower")


def test_the_papers_algorithm_counts_votes_at_full_weight() -> None:
    assert FedCT.paper().settings().items() >= {"algorithm": "fedct", "pseudo-weight": 1.0}.items()
    found = simulate(table(), partition=IID(2), algorithm=FedCT.paper(), learner="naive-bayes", progress=False)
    assert found.config.pseudo_weight == 1.0


def test_one_table_is_divided_and_a_quarter_of_it_is_public() -> None:
    found = run(Plurality(), partition=Dirichlet(5.0, silos=3), test_fraction=0.0)
    sizes = [silo.private.size for silo in found.dataset.silos]
    assert (len(found.dataset.public), sum(sizes), len(sizes)) == (40, 120, 3)
    again = simulate(
        {"a": table(), "b": table(90)}, table(30)[0], partition=IID(5), learner="naive-bayes", rounds=1, progress=False
    )
    assert [silo.name for silo in again.dataset.silos] == [f"silo-{n}" for n in range(1, 6)]
    assert repeat(2, table(), partition=IID(2), learner="naive-bayes", rounds=1, progress=False).seeds == (0, 1)


@pytest.mark.parametrize("split", [IID(3), Dirichlet(1.0, silos=3)])
def test_records_of_one_patient_stay_together(split: IID | Dirichlet) -> None:
    X, y = table(200)
    patients = np.arange(200) % 60
    frame = pd.DataFrame(X).assign(pid=patients, ill=y)
    silos, public, _ = divided(frame, None, "ill", "pid", split, 0)
    parts = [{*part.column("pid").to_pylist()} for part in (public, *silos.values())]
    assert sum(map(len, parts)) == len(set().union(*parts)) == 60
    assert sum(part.num_rows for part in (public, *silos.values())) == 200
    assert len(parts[0]) == 15


def test_a_split_that_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match="use fewer silos"):
        run(Plurality(), partition=IID(1000))
    with pytest.raises(ConfigError, match="partition='dirichlet'"):
        simulate("breast-cancer", partition=IID(2), progress=False)
