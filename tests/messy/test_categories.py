"""A few cells of another kind in columns of categories: other words, remarks, nines; and honest rare words."""

from pathlib import Path
from typing import Final

import pytest

from tests.messy.cases import Case
from tests.messy.families import drawn
from tests.messy.patients import EVERYWHERE, PUBLIC, SILOS, Patients, findings, patients


def _kinds(p: Patients, other: str, share: float, where: tuple[str, ...] = ("essen",)) -> Patients:
    """A column of blood groups, some of which have another name."""

    def cell(name: str, row: int) -> str:
        rng = drawn(name, row, 40)
        group = ("A", "B", "AB", "0")[rng.choice(4, p=(0.4, 0.12, 0.08, 0.4))]
        return other if name in where and rng.random() < share else group

    return p.add("blood", cell)


def _with_remarks(p: Patients, where: str, cells: int) -> Patients:
    rows = range(0, 40 * cells, 40) if where != PUBLIC else range(0, 30 * cells, 30)
    for row in rows:
        p.some(where, "ward", [row], f"see letter of {row + 1} May, patient refused")
    return p


def _grades(p: Patients, where: tuple[str, ...], nine: str = "9", share: float = 0.05) -> Patients:
    def cell(name: str, row: int) -> str:
        rng = drawn(name, row, 41)
        grade = ("1", "2", "3", "4")[rng.choice(4, p=(0.3, 0.4, 0.25, 0.05))]
        return nine if name in where and rng.random() < share else grade

    return p.add("asa", cell)


SAID: Final[dict[str, Case]] = {
    "a letter for a digit, in some cells": Case(lambda p: _kinds(p, "O", 0.04), "unknown-values", "blood", "essen"),
    "a word for what is not known, in a few cells": Case(
        lambda p: _kinds(p, "unbekannt", 0.04), "unknown-values", "blood", "essen"
    ),
    "a letter of another script": Case(
        lambda p: _kinds(p, "\N{CYRILLIC CAPITAL LETTER A}", 0.04), "unknown-values", "blood", "essen"
    ),
    "remarks at a silo": Case(lambda p: _with_remarks(p, "koeln", 4), "value-spellings", "ward", "koeln"),
    "remarks in public": Case(lambda p: _with_remarks(p, PUBLIC, 4), "value-spellings", "ward"),
    "nines among grades everywhere": Case(lambda p: _grades(p, EVERYWHERE), "missing-as-number", "asa"),
    "nines among grades at all silos": Case(lambda p: _grades(p, SILOS), "missing-as-number", "asa", "essen"),
}

HONEST: Final[dict[str, Case]] = {
    "a word that one patient has": Case(lambda p: p.some("essen", "ward", [7, 90], "burns"), ""),
    "long names of rare diagnoses": Case(
        lambda p: p.add(
            "diagnosis",
            lambda name, row: (
                "copd",
                "asthma",
                "other diseases of the upper airways",
                "pneumonia",
                "acute bronchitis",
            )[drawn(name, row, 42).choice(5, p=(0.4, 0.4, 0.03, 0.14, 0.03))],
        ),
        "",
    ),
    "children": Case(
        lambda p: p.add("children", lambda name, row: str(min(9, int(drawn(name, row, 43).poisson(1.4))))), ""
    ),
    "grades with a rare highest one": Case(lambda p: _grades(p, EVERYWHERE, "5", 0.02), ""),
}


@pytest.mark.parametrize("what", SAID)
def test_a_few_cells_of_another_kind_are_said(tmp_path: Path, what: str) -> None:
    case, spoiled = SAID[what], patients()
    case.spoil(spoiled)
    assert (case.code, case.column, case.silo) in findings(spoiled, tmp_path)


@pytest.mark.parametrize("what", HONEST)
def test_nothing_is_said_of_rare_words_and_grades(tmp_path: Path, what: str) -> None:
    fine = patients()
    HONEST[what].spoil(fine)
    assert not findings(fine, tmp_path)
