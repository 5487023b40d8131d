"""How good the models of a run are, by silo, method and test set: ``scores.json``."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from pydantic import TypeAdapter

from fedct_flwr.files import UNREADABLE, write_atomically
from fedct_flwr.runs.records import IN_WRONG_SUM
from fedct_flwr.scoring.assessment import Assessment
from fedct_flwr.scoring.intervals import Estimate, Verdict
from fedct_flwr.text.printable import listed, plain, printable_json
from fedct_flwr.types import RunError

METHODS: Final = ("local", "federated", "centralized")
"""Every silo alone, as it ended the run, and with all data in one place."""
Test: TypeAlias = Literal["own", "pooled"]
TESTS: Final[tuple[Test, ...]] = ("own", "pooled")
FILE: Final = "scores.json"
"""Where a run folder has them."""
_UNKNOWN: Final = dict.fromkeys(METHODS, float("nan"))


@dataclass(frozen=True)
class OnTest:
    """What a silo's models are worth on one test set: how many records that has, and how many of each class.

    ``positive`` is the class that sensitivity is about, empty unless there are two. ``models`` are by method.
    """

    n: int
    classes: dict[str, int] = field(default_factory=dict)
    positive: str = ""
    models: dict[str, Assessment] = field(default_factory=dict)

    @property
    def positives(self) -> int | None:
        """Records of the positive class."""
        return self.classes[self.positive] if self.positive else None


@dataclass(frozen=True)
class SiloScores:
    """One silo's row: balanced accuracy (or R²) by method on its own and on the pooled test set, payload bytes sent.

    ``tests`` has all numbers with their intervals, by test set; nothing where silos report for themselves. ``verdict``
    is what its own test records say of the model that it ended with, against its model alone.
    """

    silo: str
    own: dict[str, float]
    pooled: dict[str, float]
    bytes_sent: int = 0
    tests: dict[str, OnTest] = field(default_factory=dict)
    verdict: Verdict | None = None

    def metric(self, test: str, method: str, name: str) -> Estimate | None:
        """A number with its interval, None where there is none."""
        found = self.tests[test].models.get(method) if test in self.tests else None
        estimate = found.metrics.get(name) if found else None
        return estimate if estimate and np.isfinite(estimate.value) else None

    def value(self, test: str, method: str, name: str = "") -> float:
        """A number by its name, or without one that by which models are compared; NaN where there is none."""
        if not name:
            return float(getattr(self, test).get(method, math.nan))
        found = self.metric(test, method, name)
        return found.value if found else math.nan

    def metrics(self) -> Iterator[tuple[Test, str, str, Estimate]]:
        """All numbers: test set, method, name of the metric, and the number with its interval."""
        for test in TESTS:
            for method, model in (self.tests[test].models if test in self.tests else {}).items():
                for name, metric in model.metrics.items():
                    yield test, method, name, metric


def save(rows: Sequence[SiloScores], path: Path) -> None:
    """Write the scores as JSON with a line for each silo, null where there is none."""
    lines = (json.dumps(plain(row), ensure_ascii=False, allow_nan=False) for row in rows)
    write_atomically(path, printable_json("[\n" + ",\n".join(lines) + "\n]\n").encode())


_ROWS: Final[TypeAdapter[list[SiloScores]]] = TypeAdapter(list[SiloScores])


def read(path: Path) -> list[SiloScores]:
    """What ``save`` wrote, NaN where there is none; no rows without the file. Raises RunError for a damaged one."""
    try:
        rows = _ROWS.validate_python(_known(json.loads(path.read_text("utf-8"))))
        if any(test.positive and test.positive not in test.classes for row in rows for test in row.tests.values()):
            raise ValueError
    except FileNotFoundError:
        return []
    except UNREADABLE:
        raise RunError(f"{path} is damaged: take it away, and the run goes without scores") from None
    return [replace(row, own=_UNKNOWN | row.own, pooled=_UNKNOWN | row.pooled) for row in rows]


def _known(value: Any) -> Any:
    """JSON with NaN for a number that is null or infinite, and without tests and verdicts that are null."""
    if isinstance(value, dict):
        return {key: _known(one) for key, one in value.items() if one is not None or key not in ("tests", "verdict")}
    if isinstance(value, list):
        return [_known(one) for one in value]
    return math.nan if value is None or (isinstance(value, float) and not math.isfinite(value)) else value


def comparable(
    rows: Sequence[SiloScores], test: str, methods: Sequence[str] = METHODS, name: str = ""
) -> list[SiloScores]:
    """Rows with a score on this test set for each method that any row has one for.

    Silos are compared by what they have. One-shot algorithms leave no model at a silo; where there is no test set, or
    one of a single class, there is no score. ``name`` is that of a metric, as in ``SiloScores.value``.
    """
    known = [{m for m in methods if np.isfinite(row.value(test, m, name))} for row in rows]
    had = set().union(*known)
    return [row for row, own in zip(rows, known, strict=True) if had and own == had]


def means(rows: Sequence[SiloScores], test: str, methods: Sequence[str] = METHODS, name: str = "") -> dict[str, float]:
    """The mean by method over the ``comparable`` silos, which all count the same; NaN without one."""
    complete = comparable(rows, test, methods, name)
    return _UNKNOWN | {m: fmean(row.value(test, m, name) for row in complete) for m in methods if complete}


def has_scores(rows: Sequence[SiloScores], test: str, name: str = "") -> bool:
    """Whether any silo has a score, or the metric of this name, on this test set."""
    return any(np.isfinite(row.value(test, method, name)) for row in rows for method in METHODS)


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
    messages = [f"{count} of {len(rows)} silos on {_NAMES[test]}" for test, count in short.items()]
    return "every silo counts the same in the mean" + (f", over {' and '.join(messages)}" if messages else "")


def _gaps(rows: Sequence[SiloScores]) -> Iterator[str]:
    for test in TESTS:
        alone = {
            row.silo: of
            for row in rows
            if test in row.tests and (of := only_class(row.tests[test])) and not has_scores([row], test)
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
