"""Everything that can be wrong with a folder of tables, one thing at a time, and the finding that says so."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np

from tests.messy.patients import EVERYWHERE, LABEL, PUBLIC, SILOS, Patients


class Case(NamedTuple):
    """What is done to healthy patients, and the finding: its name, its column, and its silo (empty: the public set)."""

    spoil: Callable[[Patients], object]
    code: str
    column: str = ""
    silo: str = ""


def _comma(cell: str) -> str:
    return cell.replace(".", ",")


def _day(name: str, row: int, form: str = "%d.%m.%Y") -> str:
    return (date(2020, 1, 1) + timedelta(days=(row * 7 + len(name)) % 1500)).strftime(form)


def _name(name: str, row: int) -> str:
    first = ("Erika", "Max", "Ida", "Otto", "Anna", "Karl", "Mia", "Jan", "Lea", "Tom")
    return f"{first[row % 10]} Mustermann-{name}-{row}"


def _note(name: str, row: int) -> str:
    return f"pat. seen on ward {row % 7}, day {row}, complains of pain in {name}"


def _severity(row: int) -> str:
    return f"{np.random.default_rng(row).gamma(2, 3):.2f}"


def _from(words: dict[str, str]) -> Callable[[str], str]:
    return lambda cell: words.get(cell, cell)


GERMAN = {"yes": "Ja", "no": "Nein"}
DIGITS = {"yes": "1", "no": "0"}

REFUSED: Final[dict[str, Case]] = {
    "decimal comma in public": Case(lambda p: p.change(PUBLIC, "crp", _comma), "number-as-text", "crp"),
    "decimal comma everywhere": Case(lambda p: p.change(EVERYWHERE, "glucose", _comma), "number-as-text", "glucose"),
    "decimal comma at a silo": Case(lambda p: p.change("essen", "crp", _comma), "number-as-text", "crp", "essen"),
    "one bound in public": Case(lambda p: p.some(PUBLIC, "crp", [17], "<5"), "number-as-text", "crp"),
    "one bound at a silo": Case(lambda p: p.some("koeln", "crp", [17], "<5"), "number-as-text", "crp", "koeln"),
    "question marks in public": Case(lambda p: p.some(PUBLIC, "age", range(0, 90, 3), "?"), "number-as-text", "age"),
    "words for missing at a silo": Case(
        lambda p: p.some("essen", "height", range(9), "k.A."), "number-as-text", "height", "essen"
    ),
    "marks between thousands": Case(
        lambda p: p.add("cost", lambda name, row: f"{1000 + 37 * row % 9000:,}"), "number-as-text", "cost"
    ),
    "units in the cells": Case(
        lambda p: p.change(EVERYWHERE, "height", lambda cell: f"{cell} cm"), "number-as-text", "height"
    ),
    "typing errors in public": Case(lambda p: p.some(PUBLIC, "glucose", [5], "5.6.1"), "number-as-text", "glucose"),
    "labels in upper and lower case, by silo": Case(
        lambda p: p.change("essen", LABEL, str.upper).change("koeln", LABEL, str.title),
        "label-spellings",
        LABEL,
        "essen",
    ),
    "labels in upper case, in some cells": Case(
        lambda p: p.some("essen", LABEL, range(30), "Yes"), "label-spellings", LABEL, "essen"
    ),
    "labels with two blanks within": Case(
        lambda p: p.change(SILOS, LABEL, lambda c: f"ill {c}").change("koeln", LABEL, lambda c: c.replace(" ", "  ")),
        "label-spellings",
        LABEL,
        "koeln",
    ),
    "labels in full-width letters": Case(
        lambda p: p.some("koeln", LABEL, range(20), "\uff59\uff45\uff53"), "label-spellings", LABEL, "koeln"
    ),
    "labels with a hidden character": Case(
        lambda p: p.some("koeln", LABEL, range(20), "yes\u200b"), "label-spellings", LABEL, "koeln"
    ),
    "one and zero at a silo": Case(
        lambda p: p.change("essen", LABEL, _from(DIGITS)), "label-spellings", LABEL, "essen"
    ),
    "true and false at a silo": Case(
        lambda p: p.change("koeln", LABEL, lambda cell: str(cell == "yes")), "label-spellings", LABEL, "koeln"
    ),
    "another language at a silo": Case(
        lambda p: p.change("koeln", LABEL, _from(GERMAN)), "label-spellings", LABEL, "koeln"
    ),
    "other classes at a silo": Case(
        lambda p: p.change("koeln", LABEL, _from({"yes": "stage 2", "no": "stage 1"})), "no-common-class", "", "koeln"
    ),
    "several labels in a cell": Case(
        lambda p: p.change(SILOS, LABEL, _from({"yes": "a", "no": "b"})).some("essen", LABEL, range(40), "a;b"),
        "labels-in-a-cell",
        LABEL,
        "essen",
    ),
    "several labels with commas": Case(
        lambda p: p.change(SILOS, LABEL, _from({"yes": "copd", "no": "asthma"})).some(
            "essen", LABEL, range(40), "asthma, copd"
        ),
        "labels-in-a-cell",
        LABEL,
        "essen",
    ),
    "numbers to predict": Case(
        lambda p: p.relabel(lambda silo, row: _severity(row)),
        "number-to-predict",
        LABEL,
    ),
    "whole numbers to predict": Case(
        lambda p: p.relabel(lambda silo, row: str(row * 37 % 390)),
        "number-to-predict",
        LABEL,
    ),
    "names as labels": Case(
        lambda p: p.relabel(_name),
        "many-classes",
        LABEL,
    ),
    "numbers with decimal commas to predict": Case(
        lambda p: p.relabel(lambda silo, row: _severity(row).replace(".", ",")), "number-to-predict", LABEL
    ),
    "dates as labels": Case(lambda p: p.relabel(_day), "dates-as-text", LABEL),
    "lists as labels": Case(
        lambda p: p.relabel(lambda silo, row: ("['a', 'b']", "['a']", "['b']")[row % 3]),
        "labels-in-a-cell",
        LABEL,
        "dortmund",
    ),
    "short and long words of truth": Case(
        lambda p: p.change("koeln", LABEL, _from({"yes": "y", "no": "n"})), "label-spellings", LABEL, "koeln"
    ),
    "amounts of money": Case(lambda p: p.change(EVERYWHERE, "crp", lambda cell: f"€ {cell}"), "number-as-text", "crp"),
    "errors of a spreadsheet": Case(lambda p: p.some("essen", "crp", [8], "#DIV/0!"), "number-as-text", "crp", "essen"),
    "results below a limit": Case(
        lambda p: p.some(PUBLIC, "crp", range(0, 300, 3), "below limit"), "number-as-text", "crp"
    ),
    "months": Case(
        lambda p: p.add("month", lambda name, row: f"20{10 + row % 13}-{1 + row % 12:02}"), "dates-as-text", "month"
    ),
    "times of day": Case(
        lambda p: p.add("time", lambda name, row: f"{row % 24:02}:{row * 7 % 60:02}"), "dates-as-text", "time"
    ),
    "a patient's number in words": Case(
        lambda p: p.add("patient_id", lambda name, row: f"{name[:2].upper()}{row:05}"), "one-per-record", "patient_id"
    ),
    "names": Case(lambda p: p.add("name", _name), "one-per-record", "name"),
    "free text": Case(lambda p: p.add("notes", _note), "one-per-record", "notes"),
    "an index without a name": Case(lambda p: p.add("", lambda name, row: str(row), first=True), "index-column", ""),
    "an index of pandas": Case(
        lambda p: p.add("Unnamed: 0", lambda name, row: str(3 * row + 1), first=True), "index-column", "Unnamed: 0"
    ),
    "an index by another name": Case(lambda p: p.add("row", lambda name, row: str(row + 1)), "index-column", "row"),
    "dates as text": Case(lambda p: p.add("admitted", _day), "dates-as-text", "admitted"),
    "dates that are read as such": Case(
        lambda p: p.add("admitted", lambda name, row: _day(name, row, "%Y-%m-%d")), "dates-as-text", "admitted"
    ),
    "dates with a time": Case(
        lambda p: p.add("admitted", lambda name, row: _day(name, row, "%d/%m/%Y %H:%M")), "dates-as-text", "admitted"
    ),
    "other words at a silo": Case(
        lambda p: p.change("essen", "sex", _from({"m": "male", "f": "female"})), "unknown-values", "sex", "essen"
    ),
    "other words in public": Case(
        lambda p: p.change(PUBLIC, "sex", _from({"m": "male", "f": "female"})), "unknown-values", "sex", "dortmund"
    ),
    "upper case at a silo": Case(lambda p: p.change("koeln", "ward", str.upper), "unknown-values", "ward", "koeln"),
}
"""What makes results meaningless."""


def _of_label(p: Patients, name: str, row: int, ill: tuple[str, ...], well: tuple[str, ...]) -> str:
    """A word that depends on the record's label; in public, where none is, on the record's number."""
    is_ill = row % 2 == 0 if name == PUBLIC else p.tables[name][LABEL][row] == "yes"
    words = ill if is_ill else well
    return words[row // 2 % len(words)]


def _fever(row: int, factor: float, offset: float) -> str:
    return f"{np.random.default_rng(row).normal(37.4, 0.6) * factor + offset:.1f}"


def _drawn(name: str, row: int) -> int:
    """A whole number of six digits, another one for each record."""
    return 100_000 + (row * 7919 * 31 + 104_729 * len(name)) % 899_981


def _shuffled(row: int) -> int:
    return int(np.random.default_rng(row).integers(0, 4))


SAID: Final[dict[str, Case]] = {
    "a constant column": Case(lambda p: p.add("unit", lambda name, row: "mg"), "constant-column", "unit"),
    "a column empty at a silo": Case(
        lambda p: p.change("koeln", "height", lambda cell: ""), "missing-values", "height", "koeln"
    ),
    "a column mostly empty": Case(lambda p: p.some(PUBLIC, "glucose", range(200), ""), "missing-values", "glucose"),
    "one class at a silo": Case(lambda p: p.change("koeln", LABEL, lambda cell: "no"), "one-class", "", "koeln"),
    "a class of two records": Case(lambda p: p.some("koeln", LABEL, [1, 2], "maybe"), "few-of-class"),
    "a class of one silo": Case(lambda p: p.some("koeln", LABEL, range(50), "maybe"), "class-at-one-silo", "", "koeln"),
    "another unit at a silo": Case(
        lambda p: p.change("essen", "glucose", lambda cell: f"{float(cell) * 18.02:.0f}"),
        "other-scale",
        "glucose",
        "essen",
    ),
    "metres at a silo": Case(
        lambda p: p.change("essen", "height", lambda cell: f"{float(cell) / 100:.2f}"), "other-scale", "height", "essen"
    ),
    "a sentinel": Case(lambda p: p.some("essen", "crp", range(12), "-999"), "missing-as-number", "crp", "essen"),
    "a sentinel in public": Case(lambda p: p.some(PUBLIC, "age", range(12), "999"), "missing-as-number", "age"),
    "zero for missing": Case(
        lambda p: p.some("koeln", "height", range(12), "0"), "missing-as-number", "height", "koeln"
    ),
    "the same records again": Case(
        lambda p: p.copy("essen", "essen", 100),
        "repeated-records",
        "",
        "essen",
    ),
    "the same records at two silos": Case(
        lambda p: p.copy("koeln", "essen", 100),
        "shared-records",
        "",
        "koeln",
    ),
    "records in public": Case(
        lambda p: p.copy("koeln", PUBLIC, 100),
        "public-records",
        "",
        "koeln",
    ),
    "a code that tells the label": Case(
        lambda p: p.add("icd", lambda name, row: _of_label(p, name, row, ("I21", "I22"), ("Z00", "Z01"))),
        "tells-the-label",
        "icd",
    ),
    "a number that tells the label": Case(
        lambda p: p.add("days", lambda name, row: _of_label(p, name, row, ("9", "10", "14"), ("0", "3", "8"))),
        "tells-the-label",
        "days",
    ),
    "codes of diseases among numbers": Case(
        lambda p: p.add("icd9", lambda name, row: f"V{row % 9}" if row % 20 == 0 else str(250 + row * 37 % 97)),
        "number-as-text",
        "icd9",
    ),
    "two numbers in a cell": Case(
        lambda p: p.add("pressure", lambda name, row: f"{110 + row % 40}/{70 + row % 20}"), "number-as-text", "pressure"
    ),
    "labels with other signs between words": Case(
        lambda p: p.change(("dortmund", "essen", "koeln"), LABEL, lambda cell: f"ill {cell}").some(
            "koeln", LABEL, range(50), "ill-yes"
        ),
        "label-spellings",
        LABEL,
        "koeln",
    ),
    "a digit for missing": Case(
        lambda p: p.add("smoker", lambda name, row: ("0", "1", "0", "1", "9")[row * 7 % 5]),
        "missing-as-number",
        "smoker",
    ),
    "Fahrenheit at a silo": Case(
        lambda p: p.add("fever", lambda name, row: _fever(row, 1.8, 32) if name == "essen" else _fever(row, 1, 0)),
        "other-scale",
        "fever",
        "essen",
    ),
    "codes": Case(
        lambda p: p.add("ward_code", lambda name, row: ("1001", "1002", "2040", "7310")[_shuffled(row)]),
        "codes-as-numbers",
        "ward_code",
    ),
    "a number for each patient": Case(
        lambda p: p.add("case", lambda name, row: str(7_000_000 + (row * 7919) % 400_009)), "record-number", "case"
    ),
    "most words once": Case(
        lambda p: p.add("job", lambda name, row: f"job {row * 7919 % 211 if row % 4 else 0}"), "many-categories", "job"
    ),
    "spellings of a word": Case(
        lambda p: p.some("essen", "ward", range(40), "ICU "), "value-spellings", "ward", "essen"
    ),
    "spellings of a word in public": Case(
        lambda p: p.some(PUBLIC, "ward", range(40), "Icu"), "value-spellings", "ward"
    ),
    "the label column in public": Case(
        lambda p: p.tables[PUBLIC].update({LABEL: ["no"] * len(p.tables[PUBLIC]["age"])}), "label-in-public", LABEL
    ),
    "days as whole numbers": Case(
        lambda p: p.add("seen", lambda name, row: _day(name, row * 31, "%Y%m%d")), "dates-as-numbers", "seen"
    ),
    "identifiers by no known name": Case(
        lambda p: p.add("entry", lambda name, row: str(_drawn(name, row))), "record-number", "entry"
    ),
    "signs in front of some numbers": Case(
        lambda p: p.tables["koeln"].update(
            {"age": [cell if row % 40 else f"-{cell}" for row, cell in enumerate(p.tables["koeln"]["age"])]}
        ),
        "out-of-range",
        "age",
        "koeln",
    ),
    "two units at a silo": Case(
        lambda p: p.tables["essen"].update(
            {"height": [f"{float(c) / 100:.3f}" if row % 5 else c for row, c in enumerate(p.tables["essen"]["height"])]}
        ),
        "two-scales",
        "height",
        "essen",
    ),
    "two units in public": Case(
        lambda p: p.tables[PUBLIC].update(
            {
                "height": [
                    f"{float(c) / 100:.3f}" if row > 280 else c for row, c in enumerate(p.tables[PUBLIC]["height"])
                ]
            }
        ),
        "two-scales",
        "height",
    ),
    "other codes at a silo": Case(
        lambda p: p.add("icu", lambda name, row: str(_drawn(name, row) % 2 + (name == "essen"))),
        "other-scale",
        "icu",
        "essen",
    ),
    "a sentinel with a fraction": Case(
        lambda p: p.some("essen", "glucose", range(12), "99.9"), "missing-as-number", "glucose", "essen"
    ),
    "labels that nobody knows": Case(
        lambda p: [p.some(silo, LABEL, range(0, 400, 9), "unknown") for silo in SILOS], "missing-as-class", LABEL
    ),
    "nine for a missing label": Case(
        lambda p: [p.change(silo, LABEL, _from(DIGITS)).some(silo, LABEL, range(0, 400, 9), "9") for silo in SILOS],
        "missing-as-class",
        LABEL,
    ),
    "zero and one, and one and two": Case(
        lambda p: p.change(SILOS, LABEL, _from(DIGITS)).change("koeln", LABEL, lambda cell: str(int(cell) + 1)),
        "label-spellings",
        LABEL,
        "koeln",
    ),
    "words with an order": Case(
        lambda p: p.relabel(lambda silo, row: ("low", "medium", "high")[_shuffled(row) % 3]), "ordinal-classes", LABEL
    ),
    "degrees of severity": Case(
        lambda p: p.relabel(lambda silo, row: ("leicht", "mittel", "schwer")[_shuffled(row) % 3]),
        "ordinal-classes",
        LABEL,
    ),
    "Roman numerals": Case(
        lambda p: p.relabel(lambda silo, row: ("I", "II", "III", "IV")[_shuffled(row)]), "ordinal-classes", LABEL
    ),
    "stages in numbers": Case(
        lambda p: p.relabel(lambda silo, row: f"stage {_shuffled(row)}"), "ordinal-classes", LABEL
    ),
    "a silo of two records": Case(
        lambda p: p.tables["essen"].update({k: v[:2] for k, v in p.tables["essen"].items()}), "few-records", "", "essen"
    ),
    "some new words": Case(
        lambda p: p.some("essen", "ward", range(100), "paediatrics"), "unknown-values", "ward", "essen"
    ),
    "a silo with most records": Case(
        lambda p: [
            p.tables[name].update({k: v[:15] for k, v in p.tables[name].items()}) for name in ("essen", "koeln")
        ],
        "unequal-sizes",
        "",
        "dortmund",
    ),
}
"""What is suspicious."""
