"""Values that exclude each other are said where a silo has both, and never where that is so everywhere."""

from pathlib import Path

import pyarrow as pa
import pytest

from fedct_flwr.datasets.inspection import Words, inspect_tables
from fedct_flwr.datasets.table_files import read_table
from tests.messy.families import drawn
from tests.messy.patients import LABEL, PUBLIC, Patients, findings, patients

FOUND = ("contradicting-columns", "pregnant", "essen")


def with_pregnancies(seed: int, *, as_numbers: bool, public: int = 300) -> Patients:
    def cell(name: str, row: int) -> str:
        is_so = p.tables[name]["sex"][row] == "f" and drawn(name, row, 40).random() < 0.4
        return str(int(is_so)) if as_numbers else ("no", "yes")[is_so]

    p = patients(seed, public=public)
    return p.add("pregnant", cell)


def mistaken(p: Patients, where: str, every: int) -> Patients:
    table = p.tables[where]
    table["sex"] = [("m" if not row % every else cell) for row, cell in enumerate(table["sex"])]
    return p


@pytest.mark.parametrize("as_numbers", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_pair_of_values_that_nowhere_else_go_together_is_said(tmp_path: Path, seed: int, as_numbers: bool) -> None:
    spoiled = mistaken(with_pregnancies(seed, as_numbers=as_numbers), "essen", 7)
    assert FOUND in findings(spoiled, tmp_path)


@pytest.mark.parametrize("where", ["", "essen", "everywhere"])
def test_nothing_is_said_where_the_rule_holds_or_holds_nowhere(tmp_path: Path, where: str) -> None:
    p = with_pregnancies(1, as_numbers=True)
    if where == "essen":
        # A few records may well be so.
        mistaken(p, where, 200)
    for name in p.tables if where == "everywhere" else ():
        mistaken(p, name, 7)
    assert not [each for each in findings(p, tmp_path) if each[0] == "contradicting-columns"]


def test_a_real_silo_is_told_without_the_values(tmp_path: Path) -> None:
    mistaken(with_pregnancies(2, as_numbers=False, public=900), "essen", 6).write(tmp_path)
    tables: dict[str, pa.Table] = {name: read_table(tmp_path / f"{name}.csv") for name in (PUBLIC, "essen")}
    found = inspect_tables(tables[PUBLIC], {"essen": tables["essen"]}, LABEL, words=Words(private=True)).findings
    (said,) = [each.said for each in found if (each.code, each.silo) == (FOUND[0], "essen")]
    assert "'m'" not in said
    assert "'yes'" not in said
