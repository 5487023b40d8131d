"""Whole records that stand twice are said at every entry, and chance is not taken for copies."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import load
from fedct_flwr.datasets.inspection.data_set import inspect_dataset
from fedct_flwr.datasets.inspection.finding import Redaction
from fedct_flwr.datasets.inspection.shared_records import shared_records
from fedct_flwr.simulation.silos import data_of
from tests.messy.test_table_one import clinic

Tables = dict[str, pd.DataFrame]


def tables(seed: int) -> Tables:
    rng = np.random.default_rng(seed)
    return {silo: clinic(rng, int(rng.integers(30, 100))) for silo in "abcd"} | {
        "public": clinic(rng, 150).drop(columns="died")
    }


def shuffled(table: pd.DataFrame) -> pd.DataFrame:
    return table.sample(frac=1, random_state=0).reset_index(drop=True)


def numbered(table: pd.DataFrame, first: int) -> pd.DataFrame:
    return table.assign(pid=np.arange(first, first + len(table)))


def copied(given: Tables) -> None:
    given["b"] = shuffled(given["a"])


def half_copied(given: Tables) -> None:
    given["b"] = shuffled(pd.concat([given["b"][:20], given["a"][:15]]))


def renamed(given: Tables) -> None:
    copied(given)
    for number, name in enumerate(given):
        given[name] = numbered(given[name], 1000 * number)


def in_public(given: Tables) -> None:
    given["public"] = shuffled(pd.concat([given["public"], given["b"].drop(columns="died")]))


def twice(given: Tables) -> None:
    given["b"], given["c"] = shuffled(given["a"]), shuffled(given["a"])


COPIES: dict[str, tuple[Callable[[Tables], None], set[str]]] = {
    "a silo, shuffled": (copied, {"b"}),
    "half of a silo": (half_copied, {"b"}),
    "a silo with other identifiers": (renamed, {"b"}),
    "a silo in public": (in_public, {"b"}),
    "a silo at two others": (twice, {"b", "c"}),
}


def found(given: Tables, **settings: object) -> list[tuple[str, str]]:
    silos = {name: table for name, table in given.items() if name != "public"}
    data = data_of(silos, given["public"], "died")
    return [(each.code, each.silo) for each in inspect_dataset(load(RunConfig.from_flower(data.settings))).findings]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("what", COPIES)
def test_a_copy_is_said(what: str, seed: int) -> None:
    copy, silos = COPIES[what]
    given = tables(seed)
    copy(given)
    assert {silo for code, silo in found(given) if code == "shared-records"} == silos


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_said_of_other_patients(seed: int) -> None:
    assert "shared-records" not in {code for code, _ in found(tables(seed))}


def test_a_test_part_that_is_trained_on_is_said() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200, 4))
    said = [each.message for each in shared_records({"": a[:9], "a": a[50:], "b": b}, {"a": a[40:80]}, Redaction())]
    assert said == ["30 records of the test part of silo a equal records that it trains on, so its scores are too good"]


def test_repeated_records_are_said_where_others_do_not_repeat() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 100, 3))
    (only,) = shared_records({"": b[50:], "a": np.concatenate([a, a[:7]]), "b": b[:50]}, {}, Redaction())
    assert (only.code, only.silo) == ("repeated-records", "a")
    assert only.message.startswith("7 records")


@pytest.mark.parametrize("seed", range(2))
def test_few_values_repeat_by_chance_and_are_no_copies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    silos = {name: rng.integers(0, 2, size=(int(rng.integers(30, 300)), 5)).astype(float) for name in ["", *"abc"]}
    tests = {name: rng.integers(0, 2, size=(40, 5)).astype(float) for name in "abc"}
    assert not list(shared_records(silos, tests, Redaction(), tuple(range(5))))
