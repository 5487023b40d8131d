"""Messes that leave each cell as it might be are said, and honest columns like them are not."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedct_flwr.datasets.inspection import Words, inspect_tables
from tests.messy.leftovers import HONEST, SAID
from tests.messy.patients import LABEL, findings, patients


@pytest.mark.parametrize("what", SAID)
def test_a_mess_is_said(tmp_path: Path, what: str) -> None:
    case, spoiled = SAID[what], patients()
    case.spoil(spoiled)
    assert (case.code, case.column, case.silo) in findings(spoiled, tmp_path)


@pytest.mark.parametrize("what", HONEST)
def test_nothing_is_said_of_an_honest_column(tmp_path: Path, what: str) -> None:
    fine = patients()
    HONEST[what].spoil(fine)
    assert not findings(fine, tmp_path)


def words(headings: bool) -> pa.Table:
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(list("abcde"), 80).tolist() for name in ("cap", "odor", "ring", LABEL)}
    if headings:
        for name, cells in columns.items():
            cells[40] = name if name != LABEL else cells[40]
    return pa.table(columns)


@pytest.mark.parametrize("private", [False, True])
def test_a_line_of_headings_among_words_is_said(private: bool) -> None:
    def found(headings: bool) -> list[tuple[str, str, str]]:
        public = words(False).drop_columns([LABEL])
        silos = {"essen": words(headings)}
        said = inspect_tables(public, silos, LABEL, words=Words(private=private)).findings
        return [(each.code, each.column, each.silo) for each in said if each.code == "heading-row"]

    assert found(True) == [("heading-row", "", "essen")]
    assert not found(False)


@pytest.mark.parametrize(
    "what", ["a damaged class everywhere", "one word at a silo", "a ward of some of the ill alone"]
)
def test_a_real_silo_is_told_without_words_of_its_cells(tmp_path: Path, what: str) -> None:
    spoiled = patients()
    SAID[what].spoil(spoiled)
    tables = {name: pa.table(spoiled.tables[name]) for name in ("public", "essen")}
    said = inspect_tables(tables["public"], {"essen": tables["essen"]}, LABEL, words=Words(private=True)).findings
    mine = [each for each in said if each.code == SAID[what].code]
    assert mine
    for cell in ("icu", "de", "'z'", "'yes'"):
        assert not [each for each in mine if f"'{cell}" in each.said or f"{cell}'" in each.said], mine
