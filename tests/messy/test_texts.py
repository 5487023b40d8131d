"""Columns of texts in which many records have none, or all the same one."""

from typing import Any

import pyarrow as pa
import pytest

from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.inspection.inspect import inspect_tables
from fedct_flwr.datasets.inspection.words import Words

RECORDS = 100
WRONG: dict[str, tuple[list[str | None], str]] = {
    "nulls": ([None] * 20, "empty-texts"),
    "nothing between two commas": ([""] * 20, "empty-texts"),
    "blanks": (["  ", "\t", "\u00a0", "\n"] * 5, "empty-texts"),
    "another report": (["see report "] * 30, "repeated-text"),
}
FINE: dict[str, list[str | None]] = {
    "all have one": [],
    "some have none": [None, "", " "] * 3,
    "a usual one": ["nothing found"] * 15,
}


def table(first: list[str | None], place: str) -> pa.Table:
    texts = [*first, *(f"patient {number} of {place} coughs" for number in range(RECORDS - len(first)))]
    return pa.table({"note": pa.array(texts, pa.string()), "label": ["yes", "no"] * (RECORDS // 2)})


def found(private: bool = False, **tables: Any) -> set[tuple[str, str, str]]:
    silos = {name: tables.get(name, table([], name)) for name in ("basel", "essen")}
    public = tables.get("public", table([], "public")).drop_columns(["label"])
    inspected = inspect_tables(
        public, silos, "label", settings=TableSettings(text=["note"]), words=Words(private=private)
    )
    assert not inspected.refused
    return {(each.code, each.column, each.silo) for each in inspected.said if each.code.endswith(("texts", "text"))}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("place", ["essen", "public"])
def test_texts_that_say_nothing_are_said(case: str, place: str) -> None:
    cells, code = WRONG[case]
    where = "" if place == "public" else place
    assert found(**{place: table(cells, place)}) == {(code, "note", where)}
    assert found(private=True, **{place: table(cells, place)}) == {(code, "note", where)}


@pytest.mark.parametrize("case", FINE)
def test_a_few_are_usual(case: str) -> None:
    assert found(essen=table(FINE[case], "essen"), public=table(FINE[case], "public")) == set()
