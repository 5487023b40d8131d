"""More of the same families of messes: spellings, units, leaks and copies, as ``cases`` has them one at a time."""

from collections.abc import Callable
from typing import Final

import numpy as np

from tests.messy.cases import Case
from tests.messy.patients import EVERYWHERE, LABEL, PUBLIC, SILOS, Patients

ACCENTS: Final = {"yes": "décédé", "no": "vivant"}
DIAGNOSES: Final = ("flu", "cold", "covid")


def drawn(name: str, row: int, key: int = 0) -> np.random.Generator:
    """A generator of its own for each record."""
    return np.random.default_rng([*map(ord, name), row, key])


def _minus(name: str, row: int, sign: str) -> str:
    return f"{drawn(name, row).normal(-2, 1.5):.1f}".replace("-", sign)


def _diagnosis(silo: str, row: int) -> str:
    name = DIAGNOSES[drawn(silo, row).integers(3)]
    return "influenza" if (silo, name) == ("essen", "flu") else name


def _labels(p: Patients, words: dict[str, str]) -> Patients:
    return p.change(SILOS, LABEL, words.__getitem__)


def _is_ill(p: Patients, name: str, row: int) -> bool:
    """Whether a record's label says so; by chance in public, where it has none."""
    return bool(drawn(name, row, 5).random() < 0.5) if name == PUBLIC else p.tables[name][LABEL][row] == "yes"


def _middle(inside: bool, rng: np.random.Generator) -> str:
    return f"{rng.uniform(-1, 1) if inside else rng.choice([-1, 1]) * rng.uniform(1.1, 3):.3f}"


def _said(code: str) -> Case:
    return Case(Patients.write, code, LABEL, "essen")


REFUSED: Final[dict[str, Case]] = {
    "labels without their accents at a silo": Case(
        lambda p: _labels(p, ACCENTS).change("essen", LABEL, lambda cell: cell.replace("é", "e")),
        "label-spellings",
        LABEL,
        "essen",
    ),
    "labels without their accents in some cells": Case(
        lambda p: _labels(p, ACCENTS).some("koeln", LABEL, range(0, 400, 9), "decede"),
        "label-spellings",
        LABEL,
        "koeln",
    ),
    "umlauts as two letters": Case(
        lambda p: _labels(p, {"yes": "Übelkeit", "no": "gesund"}).change(
            "essen", LABEL, lambda cell: cell.replace("Ü", "Ue")
        ),
        "label-spellings",
        LABEL,
        "essen",
    ),
    "labels read in a wrong encoding": Case(
        lambda p: _labels(p, {"yes": "Übelkeit", "no": "müde"}).change(
            "essen", LABEL, lambda cell: cell.encode().decode("cp1252")
        ),
        "label-spellings",
        LABEL,
        "essen",
    ),
    "a class by another name at a silo": Case(
        lambda p: _labels(p, {"yes": "malignant", "no": "benign"}).change(
            "essen", LABEL, lambda cell: "cancer" if cell == "malignant" else cell
        ),
        "label-spellings",
        LABEL,
        "essen",
    ),
    "one of three classes by another name": Case(lambda p: p.relabel(_diagnosis), "label-spellings", LABEL, "essen"),
    "minus signs of a typesetter": Case(
        lambda p: p.add("base", lambda name, row: _minus(name, row, "\u2212")), "number-as-text", "base"
    ),
    "minus signs behind the number": Case(
        lambda p: p.add("base", lambda name, row: _minus(name, row, "-")).change(
            EVERYWHERE, "base", lambda cell: f"{cell[1:]}-" if cell[0] == "-" else cell
        ),
        "number-as-text",
        "base",
    ),
    "durations": Case(
        lambda p: p.add("lasted", lambda name, row: f"{row % 7}:{drawn(name, row).integers(60):02}"),
        "dates-as-text",
        "lasted",
    ),
    "months by name": Case(
        lambda p: p.add("seen", lambda name, row: f"{('Jan', 'Mar', 'Aug')[row % 3]} {2010 + row // 3 % 9}"),
        "dates-as-text",
        "seen",
    ),
}
"""What makes results meaningless."""

SAID: Final[dict[str, Case]] = {
    "a misspelled class": Case(
        lambda p: _labels(p, {"yes": "pneumonia", "no": "healthy"}).some("essen", LABEL, range(9), "pnuemonia"),
        "label-spellings",
        LABEL,
        "essen",
    ),
    "a misspelled class of two letters": Case(
        lambda p: p.some("essen", LABEL, range(9), "ys"), "label-spellings", LABEL, "essen"
    ),
    "a misspelled word at a silo": Case(
        lambda p: p.some("essen", "ward", range(0, 400, 40), "surgrey"), "value-spellings", "ward", "essen"
    ),
    "a misspelled word in public": Case(
        lambda p: p.some(PUBLIC, "ward", [1, 2, 3], "surgrey"), "value-spellings", "ward"
    ),
    "a word without its umlaut": Case(
        lambda p: p.change(EVERYWHERE, "ward", lambda cell: "pädiatrie" if cell == "icu" else cell).change(
            "essen", "ward", lambda cell: cell.replace("ä", "ae")
        ),
        "value-spellings",
        "ward",
        "essen",
    ),
    "a word read in a wrong encoding": Case(
        lambda p: p.change(EVERYWHERE, "ward", lambda cell: "pädiatrie" if cell == "medicine" else cell).change(
            "essen", "ward", lambda cell: cell.encode().decode("cp1252")
        ),
        "value-spellings",
        "ward",
        "essen",
    ),
    "a label copied, but for one in a hundred": Case(
        lambda p: p.add("seen", lambda name, row: "ab"[_is_ill(p, name, row) != (drawn(name, row).random() < 0.01)]),
        "tells-the-label",
        "seen",
    ),
    "a label copied as numbers, but for one in a hundred": Case(
        lambda p: p.add("z", lambda name, row: f"{drawn(name, row).normal(5 * _is_ill(p, name, row)):.3f}"),
        "tells-the-label",
        "z",
    ),
    "a number in the middle tells the label": Case(
        lambda p: p.add("z", lambda name, row: _middle(_is_ill(p, name, row), drawn(name, row))),
        "tells-the-label",
        "z",
    ),
    "an empty cell tells the label": Case(
        lambda p: p.add("biopsy", lambda name, row: f"{drawn(name, row).random():.2f}" * _is_ill(p, name, row)),
        "tells-the-label",
        "biopsy",
    ),
    "many codes that tell the label": Case(
        lambda p: p.add("drug", lambda name, row: f"{'BA'[_is_ill(p, name, row)]}{drawn(name, row).integers(40)}"),
        "tells-the-label",
        "drug",
    ),
    "a label copied at one silo": Case(
        lambda p: p.add("copy", lambda name, row: str(int(_is_ill(p, name if name == "essen" else PUBLIC, row)))),
        "tells-the-label",
        "copy",
        "essen",
    ),
    "a typing error in public": Case(lambda p: p.some(PUBLIC, "height", [7], "1700"), "far-number", "height"),
    "a typing error at a silo": Case(lambda p: p.some("essen", "height", [7], "1700"), "far-number", "height", "essen"),
    "a digit too many at a silo": Case(
        lambda p: p.tables["essen"]["height"].__setitem__(slice(3), ["1612", "1745", "1580"]),
        "far-number",
        "height",
        "essen",
    ),
    "ages that nobody reaches": Case(
        lambda p: p.some("essen", "age", [5, 50, 100], "150"), "far-number", "age", "essen"
    ),
    "an age before birth": Case(lambda p: p.some("essen", "age", [5], "-5"), "out-of-range", "age", "essen"),
    "a line of sums": Case(
        lambda p: [p.some(PUBLIC, name, [299], "9000") for name in ("crp", "height")], "far-number", "crp"
    ),
    "weeks at a silo": Case(
        lambda p: p.add(
            "stay", lambda name, row: f"{drawn(name, row).lognormal(2, 0.5) / (4 if name == 'essen' else 1):.1f}"
        ),
        "other-scale",
        "stay",
        "essen",
    ),
    "logarithms at a silo": Case(
        lambda p: p.change("essen", "crp", lambda cell: f"{np.log(float(cell)):.2f}"), "other-scale", "crp", "essen"
    ),
    "dates in the order of days": Case(
        lambda p: p.add("seen", lambda name, row: f"{1 + row % 28}{1 + row % 12:02}{2000 + row % 20}"),
        "dates-as-numbers",
        "seen",
    ),
    "dates of a spreadsheet": Case(
        lambda p: p.add("seen", lambda name, row: str(43_000 + int(drawn(name, row).integers(1500)))),
        "dates-as-numbers",
        "seen",
    ),
    "dates of birth of a spreadsheet": Case(
        lambda p: p.add("birth_date", lambda name, row: str(9_000 + int(drawn(name, row).integers(20_000)))),
        "dates-as-numbers",
        "birth_date",
    ),
    "labels that slipped by a line": Case(
        lambda p: p.tables["essen"].update({LABEL: [*p.tables["essen"][LABEL][1:], "no"]}),
        "unrelated-labels",
        "",
        "essen",
    ),
    "a tiny public set": Case(
        lambda p: p.tables[PUBLIC].update({name: cells[:9] for name, cells in p.tables[PUBLIC].items()}), "few-records"
    ),
}
"""What is suspicious."""


def _is_far(silo: str, row: int, value: float) -> float:
    return 1e6 if (silo, row) == ("essen", 9) else value


NUMBERS: Final[dict[str, tuple[Callable[[str, int, float], float], Case]]] = {
    "another unit": (lambda silo, row, value: value * (18 if silo == "essen" else 1), _said("other-scale")),
    "thousands": (lambda silo, row, value: value / (1000 if silo == "essen" else 1), _said("other-scale")),
    "another direction": (
        lambda silo, row, value: 120 - value if silo == "essen" else value,
        Case(Patients.write, "reversed-labels", "", "essen"),
    ),
    "a sentinel": (
        lambda silo, row, value: 999 if silo == "essen" and not row % 20 else value,
        _said("missing-as-number"),
    ),
    "a typing error": (_is_far, _said("far-number")),
}
"""What is suspicious about numbers to predict: how they differ by silo and record, and the finding."""
