"""Numbers that a device, a program or somebody has made of others: limits, groups, means; and honest ones."""

from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.messy.cases import Case
from tests.messy.families import drawn
from tests.messy.patients import EVERYWHERE, LABEL, PUBLIC, Patients, findings, load, patients

WORDS: Final = ("I10.9", "E11.9", "J44.1", "N18.3")


def _at_most(p: Patients, column: str, limit: float) -> Patients:
    return p.change("essen", column, lambda cell: cell if float(cell) <= limit else f"{limit:g}")


def _means_of_classes(p: Patients, column: str) -> Patients:
    table = p.tables["essen"]
    for name in ("yes", "no"):
        own = [row for row, label in enumerate(table[LABEL]) if label == name]
        mean = np.mean([float(table[column][row]) for row in own])
        p.some("essen", column, [row for row in own if drawn(name, row, 30).random() < 0.3], f"{mean:.3f}")
    return p


def _codes(p: Patients) -> Patients:
    return p.add("code", lambda name, row: WORDS[drawn(name, row, 31).integers(4)])


SAID: Final[dict[str, Case]] = {
    "a device that measures up to a limit": Case(
        lambda p: _at_most(p, "height", 180), "repeated-number", "height", "essen"
    ),
    "half of the limit of detection": Case(
        lambda p: p.change("essen", "crp", lambda cell: cell if float(cell) >= 2.5 else "1.25"),
        "repeated-number",
        "crp",
        "essen",
    ),
    "a code for a missing number next to the usual ones": Case(
        lambda p: p.some("essen", "age", range(0, 400, 20), "99"), "missing-as-number", "age", "essen"
    ),
    "means of classes": Case(lambda p: _means_of_classes(p, "age"), "repeated-number", "age", "essen"),
    "multiples of five": Case(
        lambda p: p.change("essen", "age", lambda cell: str(round(int(cell) / 5) * 5)),
        "rounded-numbers",
        "age",
        "essen",
    ),
    "halves": Case(
        lambda p: p.change("essen", "glucose", lambda cell: f"{round(float(cell) * 2) / 2:g}"),
        "rounded-numbers",
        "glucose",
        "essen",
    ),
    "numbers of groups": Case(
        lambda p: p.change(
            "essen", "height", lambda cell: str((161, 169, 177)[np.searchsorted((165, 173), float(cell))])
        ),
        "rounded-numbers",
        "height",
        "essen",
    ),
    "codes without their points, in some cells": Case(
        lambda p: [_codes(p), p.some("essen", "code", range(0, 400, 40), "I109")], "value-spellings", "code", "essen"
    ),
}

HONEST: Final = {
    "a limit everywhere": lambda p: p.change(EVERYWHERE, "height", lambda cell: cell if float(cell) <= 180 else "180"),
    "a higher share at a limit that all have": lambda p: p.add(
        "visits", lambda name, row: str(max(0, drawn(name, row, 32).integers(-10 if name == "essen" else -4, 30)))
    ),
    "multiples of five everywhere": lambda p: p.change(EVERYWHERE, "age", lambda cell: str(round(int(cell) / 5) * 5)),
    "codes that differ in a sign at the end": lambda p: p.add(
        "receptor", lambda name, row: ("her+", "her-")[row % 2] if name == PUBLIC else ("her+", "her++")[row % 40 == 0]
    ),
    "a few doses": lambda p: p.add(
        "dose", lambda name, row: ("0", "2.5", "5", "7.5", "10")[drawn(name, row, 33).integers(5)]
    ),
}


@pytest.mark.parametrize("what", SAID)
def test_made_numbers_are_said(tmp_path: Path, what: str) -> None:
    case, spoiled = SAID[what], patients()
    case.spoil(spoiled)
    assert (case.code, case.column, case.silo) in findings(spoiled, tmp_path)


@pytest.mark.parametrize("what", HONEST)
def test_nothing_is_said_of_honest_numbers(tmp_path: Path, what: str) -> None:
    fine = patients()
    HONEST[what](fine)
    found = findings(fine, tmp_path)
    assert not [each for each in found if each[0] in {"repeated-number", "rounded-numbers", "value-spellings"}]


def test_means_of_classes_are_said_to_tell_the_label(tmp_path: Path) -> None:

    said = [each.said for each in load(_means_of_classes(patients(), "age").write(tmp_path)).findings]
    assert any("each for one class" in each for each in said)
