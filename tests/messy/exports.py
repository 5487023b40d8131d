"""Messes as exports of hospitals have them: filled-in values, several visits of a patient, stamps of time, lists."""

from typing import Final

import numpy as np

from tests.messy.cases import Case
from tests.messy.families import drawn
from tests.messy.patients import EVERYWHERE, LABEL, PUBLIC, Patients

VISITS: Final = 4
DRUGS: Final = ("asa", "ace", "ppi", "statin", "heparin")
OTHER: Final = {"yes": "no", "no": "yes"}


def visits(p: Patients, column: str, named: str = "{name}{patient}") -> Patients:
    """Four records of each patient, who differ in what is measured each time, and a column that says whose they are."""
    for table in p.tables.values():
        for column_, cells in table.items():
            if column_ not in ("crp", "glucose", LABEL):
                table[column_] = [cells[row - row % VISITS] for row in range(len(cells))]
    return p.add(column, lambda name, row: named.format(name=EVERYWHERE.index(name) + 1, patient=100 + row // VISITS))


def _seconds(name: str, row: int) -> str:
    return str(1_577_836_800 + int(drawn(name, row).integers(10**8)))


def _short_day(name: str, row: int) -> str:
    rng = drawn(name, row)
    return f"{rng.integers(10, 25)}{rng.integers(1, 13):02}{rng.integers(1, 29):02}"


def _drugs(name: str, row: int, sign: str) -> str:
    rng = drawn(name, row)
    return sign.join(rng.choice(DRUGS, rng.integers(1, 4), replace=False).tolist())


def _other_labels(p: Patients, source: str, target: str) -> None:
    p.copy(source, target, 40)
    first = slice(360, 400) if source == target else slice(0, 40)
    p.tables[target][LABEL][first] = [OTHER[cell] for cell in p.tables[target][LABEL][first]]


def _mean(cells: list[str], but_every: int) -> str:
    return f"{np.mean([float(cell) for row, cell in enumerate(cells) if row % but_every]):.3f}"


def _rows(p: Patients, name: str, rows: range) -> None:
    p.tables[name] = {column: [cells[row] for row in rows] for column, cells in p.tables[name].items()}


def _slipped(p: Patients) -> None:
    for name in p.tables:
        _rows(p, name, range(150))
    for name, table in p.tables.items():
        if name != PUBLIC:
            # A clearer label than that of the patients, who are few here.
            table[LABEL] = ["yes" if float(age) > 60 else "no" for age in table["age"]]
    p.tables["essen"][LABEL] = [*p.tables["essen"][LABEL][1:], "no"]


RANGES: Final = ("0", "1-2", "3-5", "6-10", "more")
GENES: Final = ("SEPT2", "MARCH1", "TP53", "KRAS", "EGFR")
OPENED: Final = {
    "1-2": "02-Jan",
    "3-5": "05-Mar",
    "6-10": "10-Jun",
    "SEPT2": "2-Sep",
    "MARCH1": "1-Mar",
    "2310009E13": "2.31E+19",
}
"""What a spreadsheet makes of some words."""


def _opened(p: Patients, where: str | tuple[str, ...], words: tuple[str, ...]) -> Patients:
    """A column of words that a spreadsheet has opened in some tables."""
    p.add("word", lambda name, row: words[drawn(name, row, 8).integers(len(words))])
    return p.change(where, "word", lambda cell: OPENED.get(cell, cell))


def _sexes(p: Patients, name: str, row: int) -> str:
    word = {"m": "male", "f": "female"}[p.tables[name]["sex"][row]]
    return word[0].upper() if row % 4 == 0 else word


def _grades(p: Patients) -> Patients:
    return p.add("grade", lambda name, row: str(drawn(name, row, 9).integers(1, 5)))


def _median(p: Patients, name: str, column: str) -> None:
    middle = sorted(p.tables[name][column], key=float)[len(p.tables[name][column]) // 2]
    p.some(name, column, [row for row in range(400) if row % 5 < 2], middle)


def _dragged(p: Patients, name: str, column: str, step: int) -> None:
    """Fill fifty cells from the hundredth on, as a spreadsheet does from the first of them."""
    cells = p.tables[name][column]
    cells[100:150] = [str(float(cells[100]) + step * row) for row in range(50)]


def _decimals(p: Patients) -> Patients:
    return p.add("temp", lambda name, row: f"{drawn(name, row, 7).normal(37.2, 0.8):.1f}")


def _rounded(cell: str, step: float = 1) -> str:
    return f"{round(float(cell) / step) * step:g}"


SAID: Final[dict[str, Case]] = {
    "zeros for a column that is not measured": Case(
        lambda p: p.change("essen", "crp", lambda cell: "0"), "repeated-number", "crp", "essen"
    ),
    "means for missing numbers": Case(
        lambda p: p.some("koeln", "glucose", range(300), "5.61"), "repeated-number", "glucose", "koeln"
    ),
    "means in half of the cells of a silo": Case(
        lambda p: p.some("koeln", "glucose", range(0, 400, 2), "5.6183"), "repeated-number", "glucose", "koeln"
    ),
    "means in some cells of a silo": Case(
        lambda p: p.some("koeln", "height", range(0, 400, 6), "169.93"), "repeated-number", "height", "koeln"
    ),
    "means in public": Case(
        lambda p: p.some(PUBLIC, "height", range(0, 300, 3), _mean(p.tables[PUBLIC]["height"], 3)),
        "repeated-number",
        "height",
    ),
    "zeros for missing numbers that are small": Case(
        lambda p: p.some("essen", "crp", range(0, 400, 12), "0"), "repeated-number", "crp", "essen"
    ),
    "two codes for missing": Case(
        lambda p: p.some("essen", "age", range(0, 400, 30), "998").some("essen", "age", range(5, 400, 30), "999"),
        "missing-as-number",
        "age",
        "essen",
    ),
    "two codes below zero in public": Case(
        lambda p: p.some(PUBLIC, "height", range(0, 300, 30), "-8").some(PUBLIC, "height", range(5, 300, 30), "-9"),
        "missing-as-number",
        "height",
    ),
    "99 for missing ages": Case(
        lambda p: p.some("koeln", "age", range(0, 400, 15), "99"), "missing-as-number", "age", "koeln"
    ),
    "one number in public, and others at silos": Case(
        lambda p: p.change(PUBLIC, "height", lambda cell: "170"), "constant-column", "height"
    ),
    "merged cells at a silo": Case(
        lambda p: p.some("essen", "ward", [row for row in range(400) if row % 3], ""), "missing-values", "ward", "essen"
    ),
    "visits of a patient by a name that says nothing": Case(lambda p: visits(p, "xyz"), "record-number", "xyz"),
    "visits of a patient, whose number each hospital gives": Case(
        lambda p: visits(p, "Fallnummer", "{patient}"), "record-number", "Fallnummer"
    ),
    "a patient's number in capital letters": Case(lambda p: visits(p, "MRN"), "record-number", "MRN"),
    "numbers that go up with gaps": Case(
        lambda p: p.add("zz", lambda name, row: str(1000 + 17 * row + row % 5)), "record-number", "zz"
    ),
    "names that several patients have": Case(
        lambda p: p.add(
            "Name", lambda name, row: f"{'ABCDEF'[row % 6]}. {('Koch', 'Roth', 'Wolf', 'Ley')[row % 4]}-{row % 5}"
        ),
        "record-number",
        "Name",
    ),
    "seconds since 1970": Case(lambda p: p.add("taken", _seconds), "dates-as-numbers", "taken"),
    "thousandths of seconds": Case(
        lambda p: p.add("taken", lambda name, row: _seconds(name, row) + "123"), "dates-as-numbers", "taken"
    ),
    "days of six digits": Case(lambda p: p.add("seen", _short_day), "dates-as-numbers", "seen"),
    "several codes in a cell": Case(
        lambda p: p.add("drugs", lambda name, row: _drugs(name, row, ";")), "values-in-a-cell", "drugs"
    ),
    "lists of a program": Case(
        lambda p: p.add("drugs", lambda name, row: f"['{_drugs(name, row, chr(39) + ', ' + chr(39))}']"),
        "values-in-a-cell",
        "drugs",
    ),
    "the same records again in public": Case(lambda p: p.copy(PUBLIC, PUBLIC, 100), "repeated-records"),
    "records with two labels at a silo": Case(
        lambda p: _other_labels(p, "essen", "essen"), "contradicting-labels", "", "essen"
    ),
    "records with another label at another silo": Case(
        lambda p: _other_labels(p, "essen", "koeln"), "contradicting-labels", "", "koeln"
    ),
    "two units in public, each often": Case(
        lambda p: p.tables[PUBLIC].update(
            {
                "glucose": [
                    cell if row % 2 else f"{float(cell) * 18:.0f}"
                    for row, cell in enumerate(p.tables[PUBLIC]["glucose"])
                ]
            }
        ),
        "two-scales",
        "glucose",
    ),
    "minus one for a missing label": Case(
        lambda p: p.relabel(lambda silo, row: ("0", "1", "-1")[int(drawn(silo, row).integers(9)) % 5 % 3]),
        "missing-as-class",
        LABEL,
    ),
    "medians for missing numbers that are whole": Case(
        lambda p: _median(p.change(EVERYWHERE, "height", _rounded), "koeln", "height"),
        "repeated-number",
        "height",
        "koeln",
    ),
    "ages up to a limit": Case(
        lambda p: p.change("essen", "age", lambda cell: str(min(60, int(cell)))), "repeated-number", "age", "essen"
    ),
    "one temperature for all": Case(
        lambda p: _decimals(p).change("essen", "temp", lambda cell: "37.0"), "repeated-number", "temp", "essen"
    ),
    "whole numbers at a silo": Case(
        lambda p: _decimals(p).change("essen", "temp", _rounded), "rounded-numbers", "temp", "essen"
    ),
    "tens at a silo": Case(
        lambda p: p.change("koeln", "height", lambda cell: _rounded(cell, 10)), "rounded-numbers", "height", "koeln"
    ),
    "ranges as dates in public": Case(lambda p: _opened(p, EVERYWHERE, RANGES), "spreadsheet-words", "word"),
    "ranges as dates at a silo": Case(lambda p: _opened(p, "essen", RANGES), "spreadsheet-words", "word", "essen"),
    "genes as dates at a silo": Case(lambda p: _opened(p, "koeln", GENES), "spreadsheet-words", "word", "koeln"),
    "clones as numbers at a silo": Case(
        lambda p: _opened(p, "koeln", ("2310009E13", "TP53", "KRAS")), "spreadsheet-words", "word", "koeln"
    ),
    "a number that was filled down": Case(
        lambda p: _dragged(p, "koeln", "height", 0), "filled-down", "height", "koeln"
    ),
    "a number that was filled down and counted on": Case(
        lambda p: _dragged(p, PUBLIC, "height", 1), "filled-down", "height"
    ),
    "nine for a missing grade at a silo": Case(
        lambda p: _grades(p).some("essen", "grade", range(0, 400, 20), "9"), "unknown-values", "grade", "essen"
    ),
    "minus one for a missing sign at a silo": Case(
        lambda p: p.add("icu", lambda name, row: str(drawn(name, row, 6).integers(2))).some(
            "essen", "icu", range(0, 400, 20), "-1"
        ),
        "unknown-values",
        "icu",
        "essen",
    ),
    "a number among words in public": Case(
        lambda p: [p.some(name, "ward", range(0, 300, 20), "999") for name in EVERYWHERE], "missing-as-number", "ward"
    ),
    "two words for each sex": Case(
        lambda p: p.add("gender", lambda name, row: _sexes(p, name, row)), "value-spellings", "gender"
    ),
    "labels of few records that slipped by a line": Case(_slipped, "unrelated-labels", "", "essen"),
}
"""What is suspicious."""

HONEST: Final[dict[str, Case]] = {
    "one number often, everywhere": Case(
        lambda p: p.add("beers", lambda name, row: str(max(0, int(drawn(name, row).integers(-20, 15))))), ""
    ),
    "a rare sign that public has not": Case(
        lambda p: p.add("icu", lambda name, row: str(int(name != PUBLIC and row % 150 == 0))), ""
    ),
    "towns and their codes": Case(
        lambda p: p.add("town", lambda name, row: f"T{drawn(name, row).integers(30)}").add(
            "region", lambda name, row: "NSW"[int(p.tables[name]["town"][row][1:]) % 3]
        ),
        "",
    ),
    "diseases with a comma": Case(
        lambda p: p.add(
            "disease", lambda name, row: f"diabetes, type {drawn(name, row).integers(1, 9)}" if row % 2 else "none"
        ),
        "",
    ),
    "words with a semicolon": Case(
        lambda p: p.add("stay", lambda name, row: ("home; alone", "home; with others", "ward")[row % 3]), ""
    ),
    "percentages up to 99": Case(
        lambda p: p.add("spo2", lambda name, row: str(min(99, int(drawn(name, row).normal(97, 2))))), ""
    ),
    "degrees around zero": Case(lambda p: p.add("cold", lambda name, row: str(int(drawn(name, row).normal(8, 6)))), ""),
    "stays in whole days, and a few in halves": Case(
        lambda p: p.add("stay", lambda name, row: f"{drawn(name, row).integers(1, 60) / (1 + (row % 9 == 0)):g}"), ""
    ),
    "months": Case(lambda p: p.add("month", lambda name, row: ("Jan", "Mar", "Sep")[drawn(name, row).integers(3)]), ""),
    "grades of which one is rare": Case(
        lambda p: p.add("grade", lambda name, row: str(min(5, int(drawn(name, row).geometric(0.5))))), ""
    ),
    "sizes with a letter": Case(lambda p: p.add("size", lambda name, row: "SML"[drawn(name, row).integers(3)]), ""),
    "a column in the order of another": Case(
        lambda p: p.add("dose", lambda name, row: str(row // 20 * 5 + 20 * (row % 3))), ""
    ),
    "whole numbers that all differ": Case(
        lambda p: p.add("cells", lambda name, row: str(int(drawn(name, row).lognormal(11, 0.6)))), ""
    ),
}
"""Columns of which nothing is said."""
