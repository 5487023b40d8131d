"""Tables that are handed to simulate(): every kind of column works, or is one sentence that quotes no record."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedct_flwr import ConfigError, DataError, datasets, simulate
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset
from fedct_flwr.simulation.silos import data_of
from tests.sentences import sentence

SECRET = "Erika-4711"

Made = Callable[[int], Any]


def frame(size: int, name: Any, column: Made, label: Made | None = None) -> pd.DataFrame:
    found = pd.DataFrame({"age": np.arange(size, dtype=float)})
    found[name] = column(size)
    if label:
        found["ill"] = label(size)
    return found


def truth(size: int) -> list[int]:
    return [number % 2 for number in range(size)]


def load(column: Made, name: Any = "x", label: Made = truth) -> FederatedDataset:
    silos = {silo: frame(6, name, column, label) for silo in ("north", "south")}
    data = data_of(silos, frame(4, name, column), "ill")
    return datasets.load(RunConfig.from_flower({**data.settings, "test-fraction": 0.0}))


def error(column: Made) -> str:
    text = sentence(DataError, load, column)
    assert SECRET not in text
    assert "data.toml" not in text
    return text


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (lambda n: pd.date_range("2020-01-01", periods=n), "holds dates"),
        (lambda n: pd.to_timedelta(range(n), unit="s"), "holds 'duration"),
        (lambda n: [SECRET.encode()] * n, "holds 'binary'"),
        (lambda n: [1, SECRET] * (n // 2), "one kind of values"),
        (lambda n: [[SECRET]] * n, "holds 'list"),
        (lambda n: [np.inf] * n, "infinite values"),
    ],
)
def test_columns_that_do_not(column: Made, said: str) -> None:
    text = error(column)
    assert said in text
    assert "'x'" in text


def test_tests_that_name_no_silos() -> None:
    table = frame(6, "x", range, truth)
    with pytest.raises(ConfigError, match="tests is of type DataFrame: give test tables by the names of silos"):
        data_of({"north": table, "south": table}, frame(4, "x", range), "ill", table)  # type: ignore[arg-type]


def test_columns_of_the_same_name() -> None:
    table = pa.Table.from_arrays([pa.array([1, 2])] * 2, names=["age", "age"])
    for given in (table, table.to_pandas(), table.to_reader()):
        with pytest.raises(DataError, match="columns of the same name: 'age'"):
            data_of({"north": given}, given, "ill")


def test_threads_simulate_in_turns_and_torchs_generator_stays_where_it_is() -> None:
    """Both runs have the labels that they have alone."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    silos = {name: (X := rng.normal(size=(40, 3)), (X[:, 0] > 0).astype(int)) for name in "abc"}
    public, before = rng.normal(size=(50, 3)), torch.get_rng_state()

    def run(learner: str) -> list[int]:
        given = {"learner": learner, "rounds": 2, "baselines": "none", "progress": False, "inspect": False}
        return list(simulate(silos, public, **given).consensus)

    learners = ("mlp", "decision-tree", "mlp")
    with ThreadPoolExecutor(len(learners)) as threads:
        found = list(threads.map(run, learners))
    assert found == [run(learner) for learner in learners]
    assert torch.equal(torch.get_rng_state(), before)
