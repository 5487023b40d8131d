"""Messes that leave each cell as it might be: copied lines, lines of means, one word everywhere, one-sided columns."""

from typing import Final

import numpy as np

from tests.messy.cases import Case
from tests.messy.families import drawn
from tests.messy.patients import EVERYWHERE, LABEL, NUMBERS, PUBLIC, SILOS, Patients


def _is_ill(p: Patients, name: str, row: int, errors: float = 0.0) -> bool:
    """The label, but for a share of errors; in public, where none is, by chance."""
    rng = drawn(name, row, 21)
    if name == PUBLIC:
        return bool(rng.random() < 0.5)
    return (p.tables[name][LABEL][row] == "yes") != (rng.random() < errors)


def _some_of_the_ill(p: Patients, name: str, row: int, share: float) -> bool:
    return _is_ill(p, name, row) and drawn(name, row, 22).random() < share


def _last_line(p: Patients, name: str, of: str) -> None:
    """Write what sums the numbers of a table up below its records."""
    table = p.tables[name]
    totals = {column: getattr(np, of)(np.array(table[column], float)) for column in NUMBERS}
    for column, cells in table.items():
        cells.append(f"{totals[column]:.2f}" if column in totals else cells[0])


def _pasted_twice(p: Patients, source: str, target: str) -> None:
    """Write sixty records of one table over those of another, or below its own, each with two other cells."""
    for column, cells in p.tables[target].items():
        copied = p.tables[source][column][20:80]
        if column in ("age", "glucose"):
            copied = [p.tables[source][column][(row * 7 + len(column)) % 300] for row in range(60)]
        p.tables[target][column] = [*cells[:-60], *copied] if source == target else [*copied, *cells[60:]]


def _exchanged(p: Patients) -> None:
    table = p.tables["essen"]
    table["crp"], table["glucose"] = table["glucose"], table["crp"]


SAID: Final[dict[str, Case]] = {
    "one word at a silo": Case(
        lambda p: p.change("essen", "ward", lambda cell: "icu"), "constant-column", "ward", "essen"
    ),
    "one of two numbers at a silo": Case(
        lambda p: p.add("smoker", lambda name, row: "0" if name == "essen" else str(row * 7919 % 3 % 2)),
        "constant-column",
        "smoker",
        "essen",
    ),
    "a damaged word everywhere": Case(
        lambda p: p.change(EVERYWHERE, "ward", lambda cell: "m\xc3\xa4nnlich" if cell == "icu" else cell),
        "wrong-encoding",
        "ward",
    ),
    "a lost letter everywhere": Case(
        lambda p: p.change(EVERYWHERE, "ward", lambda cell: "m\ufffdnnlich" if cell == "icu" else cell),
        "wrong-encoding",
        "ward",
    ),
    "an entity of a web page everywhere": Case(
        lambda p: p.change(EVERYWHERE, "ward", lambda cell: "ear &amp; throat" if cell == "icu" else cell),
        "wrong-encoding",
        "ward",
    ),
    "a damaged class everywhere": Case(
        lambda p: p.change(SILOS, LABEL, lambda cell: {"yes": "m\xc3\xbcde", "no": "wach"}[cell]),
        "wrong-encoding",
        LABEL,
        "dortmund",
    ),
    "a factor between numbers of a wide range": Case(
        lambda p: p.change("essen", "crp", lambda cell: f"{float(cell) * 1.8:.2f}"), "other-scale", "crp", "essen"
    ),
    "a factor below one": Case(
        lambda p: p.change("essen", "crp", lambda cell: f"{float(cell) / 2.54:.2f}"), "other-scale", "crp", "essen"
    ),
    "two columns that nothing goes with": Case(_exchanged, "swapped-columns", "crp", "essen"),
    "a measure of some of the ill alone": Case(
        lambda p: p.add(
            "biopsy",
            lambda name, row: f"{drawn(name, row).normal(5):.1f}" if _some_of_the_ill(p, name, row, 0.7) else "",
        ),
        "tells-the-label",
        "biopsy",
    ),
    "a measure of most of the ill": Case(
        lambda p: p.add(
            "lactate",
            lambda name, row: f"{drawn(name, row).normal(2):.1f}" if _is_ill(p, name, row, 0.12) else "",
        ),
        "tells-the-label",
        "lactate",
    ),
    "a treatment of some of the ill alone": Case(
        lambda p: p.add("lysis", lambda name, row: str(int(_some_of_the_ill(p, name, row, 0.5)))),
        "tells-the-label",
        "lysis",
    ),
    "a ward of some of the ill alone": Case(
        lambda p: p.add("unit", lambda name, row: "xyz"[2 if _some_of_the_ill(p, name, row, 0.5) else row % 2]),
        "tells-the-label",
        "unit",
    ),
    "a code with the label that has no company": Case(
        lambda p: p.add("discharge", lambda name, row: ("home", "rehab")[_is_ill(p, name, row, 0.06)]),
        "tells-the-label",
        "discharge",
    ),
    "a line of means": Case(lambda p: _last_line(p, "essen", "mean"), "summary-row", "", "essen"),
    "a line of medians in public": Case(lambda p: _last_line(p, PUBLIC, "median"), "summary-row"),
    "lines that were pasted twice": Case(lambda p: _pasted_twice(p, "essen", "essen"), "pasted-cells", "crp", "essen"),
    "lines of another silo": Case(lambda p: _pasted_twice(p, "essen", "koeln"), "pasted-cells", "crp", "koeln"),
    "own lines in public": Case(lambda p: _pasted_twice(p, "koeln", PUBLIC), "pasted-cells", "crp", "koeln"),
    "a column of another silo": Case(
        lambda p: p.tables["koeln"].update({"height": [*p.tables["dortmund"]["height"]]}),
        "pasted-cells",
        "height",
        "koeln",
    ),
}
"""What is suspicious."""

HONEST: Final[dict[str, Case]] = {
    "a rare word that a silo lacks": Case(
        lambda p: p.add("twin", lambda name, row: "yes" if name != "essen" and row % 25 == 0 else "no"), ""
    ),
    "words with accents and an ampersand": Case(
        lambda p: p.change(EVERYWHERE, "ward", lambda cell: "HNO & Zahnärzte" if cell == "icu" else cell), ""
    ),
    "a measure that is missing by chance": Case(
        lambda p: p.add(
            "lactate",
            lambda name, row: f"{drawn(name, row).normal(2):.1f}" if drawn(name, row, 2).random() < 0.7 else "",
        ),
        "",
    ),
    "a treatment of most of the ill, and of some others": Case(
        lambda p: p.add("lysis", lambda name, row: str(int(_is_ill(p, name, row, 0.25)))), ""
    ),
    "doses that follow a plan": Case(
        lambda p: p.add("dose", lambda name, row: str((5, 80, 20, 160, 40, 10, 120)[row % 7] * (1 + row // 7 % 5))), ""
    ),
}
"""Columns of which nothing is said."""
