"""Lines below a table, codes that begin elsewhere, lost decimal points, births to come, and columns of many zeros."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from numpy.random import Generator

from fedct_flwr.config import TableSettings
from fedct_flwr.datasets.inspection import inspect_tables
from fedct_flwr.datasets.inspection.future_dates import future_dates
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.datasets.table_files import read_table
from tests.messy.patients import LABEL

SILOS: Final = {"berlin": 500, "essen": 400, "koeln": 300}
Columns = dict[str, Any]
Spoil = Callable[[Columns, Generator], None]


def columns(rng: Generator, count: int) -> Columns:
    """Patients with a grade, costs of which most are zero, and a sign that goes with the others."""
    latent = rng.normal(size=count)
    found: Columns = {
        "age": np.round(60 + 12 * latent + 6 * rng.normal(size=count)).clip(18, 95),
        "grade": 1 + rng.choice(5, count, p=[0.1, 0.35, 0.35, 0.12, 0.08]),
        "costs": np.where(rng.random(count) < 0.9, 0, np.round(np.exp(5 + rng.normal(size=count)), 2)),
        "crp": np.round(np.exp(1 + 0.5 * latent + 0.5 * rng.normal(size=count)), 1),
        "smoker": np.where(latent + 0.5 * rng.normal(size=count) > 0, "yes", "no"),
        "ward": rng.choice(["a", "b", "c"], count),
    }
    return {**found, LABEL: np.where(latent + rng.normal(size=count) > 0.5, "ill", "healthy")}


def said(spoil: Spoil | None, seed: int = 0) -> set[tuple[str, str, str]]:
    rng = np.random.default_rng(seed)
    public = pa.table(columns(rng, 400)).drop_columns([LABEL])
    silos = {silo: columns(rng, size) for silo, size in SILOS.items()}
    if spoil:
        spoil(silos["essen"], rng)
    found = inspect_tables(public, {silo: pa.table(each) for silo, each in silos.items()}, LABEL).findings
    return {(each.code, each.column, each.silo) for each in found}


def swapped(table: Columns, rng: Generator) -> None:
    table["smoker"] = np.where(table["smoker"] == "yes", "no", "yes")


def one_less(table: Columns, rng: Generator) -> None:
    table["grade"] = table["grade"] - 1


def one_more(table: Columns, rng: Generator) -> None:
    table["grade"] = table["grade"] + 1


def without_points(table: Columns, rng: Generator) -> None:
    table["age"] = np.where(rng.random(len(table["age"])) < 0.035, 100 * table["age"], table["age"])


def with_counts(table: Columns, rng: Generator) -> None:
    for word in ("a", "b", "Total"):
        for name, cells in table.items():
            last = {"ward": word, LABEL: "ill"}.get(name)
            table[name] = [*cells.tolist(), last] if isinstance(cells, np.ndarray) else [*cells, last]


SAID: Final[dict[str, tuple[Spoil, str, str]]] = {
    "yes and no swapped, next to a column of zeros": (swapped, "reversed-column", "smoker"),
    "grades from zero": (one_less, "out-of-range", "grade"),
    "grades from two": (one_more, "other-scale", "grade"),
    "some ages without their decimal point": (without_points, "far-number", "age"),
    "counts below the table": (with_counts, "summary-row", ""),
}


@pytest.mark.parametrize("what", SAID)
def test_it_is_said(what: str) -> None:
    spoil, code, column = SAID[what]
    assert (code, column, "essen") in said(spoil)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_said_without_it(seed: int) -> None:
    assert not said(None, seed)


def more_severe(table: Columns, rng: Generator) -> None:
    table["grade"] = np.minimum(table["grade"] + 1, 5)


def mostly_unknown(table: Columns, rng: Generator) -> None:
    """Records that somebody has sorted by how much is known of them."""
    order = np.arange(len(table["age"]))
    for at, name in enumerate(("age", "crp", "costs", "grade")):
        table[name] = [None if row > len(order) - 10 * (4 - at) else float(table[name][row]) for row in order]


@pytest.mark.parametrize("spoil", [more_severe, mostly_unknown])
def test_other_patients_and_sorted_ones_are_no_such_lines(spoil: Spoil) -> None:
    assert not {code for code, _, _ in said(spoil)} & {"other-scale", "summary-row"}


def test_codes_far_from_most_are_no_lost_points() -> None:
    """As providers' numbers, which are no measures."""

    def providers(table: Columns, rng: Generator) -> None:
        size = len(table["age"])
        table["age"] = 30_000 + np.where(np.arange(size) % 30 == 0, 2000, np.arange(size) % 95)

    assert ("far-number", "age", "essen") not in said(providers)


@pytest.mark.parametrize("seed", range(4))
def test_logarithms_may_go_below_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wages = 2.6 + 0.35 * rng.standard_t(4, (2, 800)).clip(-5, 6)
    public, own = wages[0][wages[0] > 0.8], np.append(wages[1], [-0.26])
    silo = pa.table({"wage": own, LABEL: ["yes", "no"] * (len(own) // 2) + ["no"] * (len(own) % 2)})
    found = inspect_tables(pa.table({"wage": np.append(public, 0.81)}), {"essen": silo}, LABEL).findings
    assert not [each for each in found if each.code == "out-of-range"]


def births(tmp_path: Any, name: str, years: list[int]) -> pa.Table:
    path = tmp_path / f"{name}.csv"
    path.write_text("born\n" + "".join(f"{year}-05-01\n" for year in years), "utf-8")
    return read_table(path, tables=TableSettings(dates="%Y-%m-%d"))


def test_births_to_come_are_said_and_appointments_are_not(tmp_path: Any) -> None:
    past = [*range(1930, 2000)]
    now = 56 * 365.25 * 86_400.0
    tables = {"": births(tmp_path, "public", past), "essen": births(tmp_path, "essen", [*past, 2052, 2061])}
    (found,) = future_dates(tables, Words(), set(), now)
    assert (found.code, found.column, found.silo) == ("far-number", "born", "essen")
    assert "in 2 cells" in found.said
    assert not [*future_dates(tables, Words(), {("born", "essen")}, now)]
    planned = {silo: births(tmp_path, "plan", [*past, 2052]) for silo in tables}
    assert not [*future_dates(planned, Words(), set(), now)]
    assert not [*future_dates({"": births(tmp_path, "soon", [*past, 2026])}, Words(), set(), now)]
