"""How good the models of a run are, by silo, method and test set: ``scores.json``."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from fedct_flwr.files import UNREADABLE, write_atomically
from fedct_flwr.runs.records import GLOBAL_MODEL, IN_WRONG_SUM
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import BALANCED_ACCURACY
from fedct_flwr.scoring.assessment import Assessment
from fedct_flwr.scoring.intervals import UNKNOWN, Estimate, Verdict
from fedct_flwr.text.printable import listed, plain, printable_json
from fedct_flwr.types import RunError

METHODS: Final = ("local", "federated", "centralized")
"""Every silo alone, as it ended the run, and with all data in one place."""
Test: TypeAlias = Literal["own", "pooled"]
TESTS: Final[tuple[Test, ...]] = ("own", "pooled")
FILE: Final = "scores.json"
"""Where a run folder has them."""
VERDICT: Final = "verdict.json"
"""Where a run folder has the silos that gained or lost."""


@dataclass(frozen=True)
class OnTest:
    """Scores of a silo's models on one test set: its number of records, in all and of each class.

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

    @property
    def only_class(self) -> str:
        """The class that all records have; empty where there are more, or none."""
        there = [name for name, count in self.classes.items() if count]
        return there[0] if len(there) == 1 else ""


_NO_TEST: Final = OnTest(0)


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

    def metric(self, test: str, method: str, name: str) -> Estimate:
        """A number with its interval, NaN where there is none."""
        model = self.tests.get(test, _NO_TEST).models.get(method)
        return model.metrics.get(name, UNKNOWN) if model else UNKNOWN

    def value(self, test: str, method: str, name: str = "") -> float:
        """A number by its name, or without one that by which models are compared; NaN where there is none."""
        compared = {"own": self.own, "pooled": self.pooled}[test]
        return self.metric(test, method, name).value if name else compared.get(method, math.nan)


class Number(NamedTuple):
    """A metric of one method's model at a silo, on a test set of ``n`` records, with its interval."""

    silo: str
    test: Test
    n: int
    method: str
    metric: str
    value: float
    low: float
    high: float


def numbers(rows: Iterable[SiloScores]) -> Iterator[Number]:
    """All numbers of these silos, a line each."""
    for row in rows:
        for test in TESTS:
            found = row.tests.get(test, _NO_TEST)
            for method, model in found.models.items():
                for name, metric in model.metrics.items():
                    yield Number(row.silo, test, found.n, method, name, metric.value, metric.low, metric.high)


def save(rows: Sequence[SiloScores], path: Path) -> None:
    """Write the scores as JSON with a line for each silo, null where there is none."""
    lines = (json.dumps(plain(row), ensure_ascii=False, allow_nan=False) for row in rows)
    write_atomically(path, printable_json("[\n" + ",\n".join(lines) + "\n]\n").encode())


_ROWS: Final[TypeAdapter[list[SiloScores]]] = TypeAdapter(list[SiloScores])


def read(path: Path) -> list[SiloScores]:
    """Read the file of ``save``, NaN for missing numbers; no rows without it. Raises RunError for a damaged one."""
    try:
        rows = _ROWS.validate_python(_known(json.loads(path.read_text("utf-8"))))
        if any(test.positive and test.positive not in test.classes for row in rows for test in row.tests.values()):
            raise ValueError
    except FileNotFoundError:
        return []
    except UNREADABLE:
        raise RunError(f"{path} is damaged: take it away, and the run goes without scores") from None
    return rows


def _known(value: Any) -> Any:
    """Parsed JSON with NaN for null and for infinite numbers, and without tests and verdicts that are null."""
    if isinstance(value, dict):
        return {key: _known(one) for key, one in value.items() if one is not None or key not in ("tests", "verdict")}
    if isinstance(value, list):
        return [_known(one) for one in value]
    return math.nan if value is None or (isinstance(value, float) and not math.isfinite(value)) else value


def comparable(rows: Sequence[SiloScores], test: str, name: str = "") -> list[SiloScores]:
    """Rows with a score on this test set for each method that any row has one for.

    Silos are compared by what they have. One-shot algorithms leave no model at a silo; where there is no test set, or
    one of a single class, there is no score. ``name`` is that of a metric, as in ``SiloScores.value``.
    """
    known = [{m for m in METHODS if math.isfinite(row.value(test, m, name))} for row in rows]
    had = set().union(*known)
    return [row for row, own in zip(rows, known, strict=True) if had and own == had]


def worst_first(rows: Sequence[SiloScores], test: str) -> list[SiloScores]:
    """Rows with this test set, those first whose co-trained chances are furthest off (calibration intercept)."""
    off = {row.silo: abs(row.value(test, "federated", "intercept")) for row in rows if test in row.tests}
    there = [row for row in rows if row.silo in off]
    return sorted(there, key=lambda row: -1.0 if math.isnan(off[row.silo]) else off[row.silo], reverse=True)


def means(rows: Sequence[SiloScores], test: str, name: str = "") -> dict[str, float]:
    """The mean by method over the ``comparable`` silos, which all count the same; NaN without one."""
    complete = comparable(rows, test, name)
    return {m: fmean(row.value(test, m, name) for row in complete) if complete else math.nan for m in METHODS}


def has_scores(rows: Sequence[SiloScores], test: str, name: str = "") -> bool:
    """Whether any silo has a score, or the metric of this name, on this test set."""
    return any(math.isfinite(row.value(test, method, name)) for row in rows for method in METHODS)


def titles(federated: str) -> dict[str, str]:
    """Title of each method in tables; ``federated`` is the algorithm's."""
    return dict(zip(METHODS, ("alone", federated, "central"), strict=True))


_NAMES: Final = {"own": "own test sets", "pooled": "the pooled test set"}
_NEAR_CHANCE: Final = 0.05
_USEFUL: Final = 0.6
"""An AUC from which a model ranks records well enough that another threshold would serve."""
_COMPARED: Final = (BALANCED_ACCURACY.key, "auc")


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
    models = {method for row in rows for of in row.tests.values() for method in of.models}
    if models and "federated" not in models:
        yield (
            "no score of the co-trained models, as the run has kept none: set save-models, or a student for votes; "
            "flower.log in the run folder says why a model could not be kept"
        )
    for test in TESTS:
        alone = {row.silo: of for row in rows if (of := row.tests.get(test, _NO_TEST).only_class)}
        if alone and test == "pooled":
            yield f"all records of the pooled test set are of class {min(alone.values())!r}: no score can be computed"
        elif alone:
            yield (
                f"no own score of {listed([*alone])}: all records of its own test set are of one class, and always "
                "naming that class would score 1"
            )


def _thresholds(rows: Sequence[SiloScores]) -> Iterator[str]:
    for method, whose in (("federated", "co-trained models"), ("local", "models alone")):
        for test in ("pooled", "own"):
            ranking = [row for row in rows if math.isfinite(row.value(test, method, "auc"))]
            found = [row for row in ranking if _near_chance(row, test, method)]
            if found and 2 * len(found) > len(ranking):
                balanced, area = (fmean(row.value(test, method, name) for row in found) for name in _COMPARED)
                yield (
                    f"on {_NAMES[test]} {whose} have a balanced accuracy of {balanced:.3f} and an AUC of {area:.3f}: "
                    "they rank records well, but their threshold names almost only the frequent class; set "
                    "class-weight to 'balanced', or choose another threshold"
                )
                return


def _near_chance(row: SiloScores, test: str, method: str) -> bool:
    """Whether balanced accuracy is that of chance, and the AUC is clearly better."""
    balanced, area = (row.metric(test, method, name) for name in _COMPARED)
    there = sum(count > 0 for count in row.tests[test].classes.values())
    return balanced.value < 1 / there + _NEAR_CHANCE and area.value > _USEFUL and area.low > 1 / 2


def of_global_models(folder: RunFolder) -> dict[str, float]:
    """Balanced accuracy on the pooled test set, by the name of the global model, where known."""
    scores = folder.read_json("result.json").get(GLOBAL_MODEL, {}).get("scores", {})
    found = {name: values["balanced_accuracy"] for name, values in scores.items()}
    return {name: float(value) for name, value in found.items() if value is not None}
