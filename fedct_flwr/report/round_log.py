"""The round log as columns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.files.json_file import DAMAGED
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import SiloName

_OF_RUN: Final = ("queried", "abstained", "agreement", "churn", "distance", "moved", "balanced_accuracy")
_OF_SILO: Final = (
    "bytes_sent", "seconds", "agreement", "distance", "own_balanced_accuracy", "pooled_balanced_accuracy",
    "own_r_squared", "pooled_r_squared",
)  # fmt: skip


class Absence(NamedTuple):
    """Why a silo did not count in a round."""

    round: int
    silo: str
    reason: str


@dataclass(frozen=True, eq=False)
class Course:
    """All rounds that have ended, NaN for what the log does not have; columns are named as in ``rounds.jsonl``.

    ``number`` and each column of ``run`` are ``(rounds,)``, each of ``silo`` is ``(rounds, silos)``, ``classes`` is
    ``(rounds, classes)``: public examples with the class's label. ``quality`` is the last of each silo.
    """

    silos: tuple[SiloName, ...]
    number: NDArray[np.int64]
    run: Mapping[str, NDArray[np.float64]]
    silo: Mapping[str, NDArray[np.float64]]
    classes: NDArray[np.float64]
    absences: tuple[Absence, ...]
    fixed_point: int | None
    quality: Mapping[SiloName, Mapping[str, float]]

    def __len__(self) -> int:
        return len(self.number)

    @property
    def shares_labels(self) -> bool:
        """Whether silos share labels; otherwise values or weights."""
        return self.shares_answers and not self.shares_values

    @property
    def shares_values(self) -> bool:
        """Whether silos share values of a quantity."""
        return bool(np.isfinite(self.run["distance"]).any())

    @property
    def shares_answers(self) -> bool:
        """Whether silos share labels or values; otherwise weights."""
        return bool(np.isfinite(self.run["queried"]).any())


def read_course(folder: RunFolder, silos: Sequence[SiloName], classes: Sequence[str]) -> Course:
    """What the log says by now. Raises RunError for one that is damaged."""
    try:
        return _columns(folder.rounds(), silos, classes)
    except DAMAGED:
        raise folder.round_log().damaged() from None


def _columns(records: Sequence[Mapping[str, Any]], silos: Sequence[SiloName], classes: Sequence[str]) -> Course:
    sent = [{str(silo): of for silo, of in record["silos"].items()} for record in records]
    names = (*silos, *sorted({silo for row in sent for silo in row} - set(silos)))
    since, absences = None, []
    quality: dict[SiloName, Mapping[str, float]] = {}
    for record, row in zip(records, sent, strict=True):
        # The first of the last rounds that are at a fixed point.
        since = (since or record["round"]) if record.get("fixed_point") else None
        absences += [Absence(record["round"], str(s), str(why)) for s, why in (record.get("absent") or {}).items()]
        for silo, of in row.items():
            if told := of.get("quality"):
                quality[silo] = {name: float(value) for name, value in told.items() if isinstance(value, int | float)}
    counts = [record.get("class_counts") or {} for record in records]
    return Course(
        silos=names,
        number=np.array([record["round"] for record in records], dtype=np.int64),
        run={name: np.array([_number(record, name) for record in records]) for name in _OF_RUN},
        silo={
            name: _table([[_number(row.get(s, {}), name) for s in names] for row in sent], names) for name in _OF_SILO
        },
        classes=_table([[finite(of.get(name)) for name in classes] for of in counts], classes),
        absences=tuple(absences),
        fixed_point=since,
        quality=quality,
    )


def _table(rows: Sequence[Sequence[float]], columns: Sequence[str]) -> NDArray[np.float64]:
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(columns))


def _number(said: Mapping[str, Any], name: str) -> float:
    """A number by its name, which may be one of the scores."""
    return finite(said[name] if name in said else (said.get("scores") or {}).get(name))


def finite(value: Any) -> float:
    """A number of a JSON file; NaN for none, and for one without end. Raises as ``float``.

    >>> finite(3), finite(None), finite(float("inf"))
    (3.0, nan, nan)
    """
    number = float("nan") if value is None else float(value)
    return number if math.isfinite(number) else float("nan")
