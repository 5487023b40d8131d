"""Sentences that keep scores from misleading: what is missing and why, and what a number hides."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import numpy as np

from fedct_flwr.runs.records import IN_WRONG_SUM
from fedct_flwr.runs.scores import METHODS, TESTS, OnTest, SiloScores, comparable, has_scores
from fedct_flwr.text.printable import listed

_NAMES: Final = {"own": "own test sets", "pooled": "the pooled test set"}
_NEAR_CHANCE: Final = 0.05
_USEFUL: Final = 0.6
"""An AUC from which a model ranks records well enough that another threshold would serve."""


def notes(rows: Sequence[SiloScores], rounds: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """All sentences about these scores, and about the sums of these rounds; none where nothing is amiss."""
    absences = ((entry["round"], reason) for entry in rounds for reason in entry["absent"].values())
    return [*_gaps(rows), *_thresholds(rows), *of_sums(absences)]


def of_sums(absences: Iterable[tuple[int, str]]) -> Iterator[str]:
    """A sentence on the rounds whose secure sums were refused, of rounds and reasons why silos did not count."""
    if wrong := sorted({round_ for round_, reason in absences if reason == IN_WRONG_SUM}):
        yield (
            f"honest silos cannot have made the secure sums of steps {', '.join(map(str, wrong))}, so these "
            "do not count: one of the silos does not follow the protocol, and no sum shows which"
        )


def means_words(rows: Sequence[SiloScores]) -> str:
    """How means over silos weigh them, as a caption; empty for a single row."""
    short = {
        test: len(found)
        for test in TESTS
        if has_scores(rows, test) and len(found := comparable(rows, test)) < len(rows)
    }
    if len(rows) < 2:
        return ""
    said = [f"{count} of {len(rows)} silos on {_NAMES[test]}" for test, count in short.items()]
    return "every silo counts the same in the mean" + (f", over {' and '.join(said)}" if said else "")


def _gaps(rows: Sequence[SiloScores]) -> Iterator[str]:
    for test in TESTS:
        alone = {
            row.silo: of
            for row in rows
            if test in row.tests and (of := only_class(row.tests[test])) and not _has_any(row, test)
        }
        if not alone:
            continue
        if test == "pooled":
            (only,) = set(alone.values())
            yield f"all records of the pooled test set are of class {only!r}: no score can be computed"
        else:
            yield (
                f"no own score of {listed([*alone])}: all records of its own test set are of one class, and always "
                "naming that class would score 1"
            )


def only_class(test: OnTest) -> str:
    """The class that all records of a test set have; empty where there are more, or none."""
    there = [name for name, count in test.classes.items() if count]
    return there[0] if len(there) == 1 else ""


def _has_any(row: SiloScores, test: str) -> bool:
    return any(np.isfinite(value) for value in getattr(row, test).values())


def _thresholds(rows: Sequence[SiloScores]) -> Iterator[str]:
    for method in ("federated", "local"):
        for test in ("pooled", "own"):
            found = [pair for row in rows if (pair := _near_chance(row, test, method))]
            known = [row for row in rows if row.metric(test, method, "auc")]
            if found and 2 * len(found) > len(known):
                balanced, area = (fmean(values) for values in zip(*found, strict=True))
                whose = {"federated": "co-trained models", "local": "models alone"}[method]
                yield (
                    f"on {_NAMES[test]} {whose} have a balanced accuracy of {balanced:.3f} and an AUC of {area:.3f}: "
                    "they rank records well, but their threshold names almost only the frequent class; set "
                    "class-weight to 'balanced', or choose another threshold"
                )
                return


def _near_chance(row: SiloScores, test: str, method: str) -> tuple[float, float] | None:
    """Balanced accuracy and AUC, where the one is chance's and the other is clearly better."""
    balanced, area = (row.metric(test, method, name) for name in ("balanced_accuracy", "auc"))
    if not balanced or not area:
        return None
    there = sum(count > 0 for count in row.tests[test].classes.values())
    hidden = balanced.value < 1 / there + _NEAR_CHANCE and area.value > _USEFUL and area.low > 1 / 2
    return (balanced.value, area.value) if hidden else None


def metric_means(rows: Sequence[SiloScores], test: str, name: str) -> Mapping[str, float]:
    """The mean of a metric by method, over the silos that have it for each method that any has it for."""
    had = [m for m in METHODS if any(row.metric(test, m, name) for row in rows)]
    found = [[row.metric(test, m, name) for m in had] for row in rows]
    complete = [[e.value for e in row if e] for row in found if all(row)]
    return {m: fmean(values) for m, values in zip(had, zip(*complete, strict=True), strict=True)} if complete else {}
