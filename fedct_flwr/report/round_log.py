"""The round log as columns, read as it grows: a live page looks again and again, and parses each line once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.files.json_file import DAMAGED
from fedct_flwr.files.json_lines import JsonLines
from fedct_flwr.types import SiloName

_OF_SILO: Final = ("bytes_sent", "seconds", "agreement", "distance")
_OF_RUN: Final = (
    "seconds", "queried", "changed", "abstained", "agreement", "instruction_bytes", "bytes_sent", "churn",
    "accuracy_spread", "distance", "moved",
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
    absences: tuple[Absence, ...] = ()
    fixed_point: int | None = None
    quality: Mapping[SiloName, Mapping[str, float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.number)

    @property
    def shares_labels(self) -> bool:
        """Whether silos share labels; otherwise values or weights."""
        return self.shares_answers and not self.shares_values

    @property
    def shares_values(self) -> bool:
        """Whether silos share values of a quantity."""
        return bool(np.isfinite(self.of_run("distance")).any())

    @property
    def shares_answers(self) -> bool:
        """Whether silos share labels or values; otherwise weights."""
        return bool(np.isfinite(self.run["queried"]).any())

    def of_silos(self, name: str) -> NDArray[np.float64]:
        """A column ``(rounds, silos)``, all NaN where the log has none."""
        found = self.silo.get(name)
        return np.full((len(self), len(self.silos)), np.nan) if found is None else found

    def of_run(self, name: str) -> NDArray[np.float64]:
        """A column ``(rounds,)``, all NaN where the log has none."""
        found = self.run.get(name)
        return np.full(len(self), np.nan) if found is None else found


class RoundLog:
    """Keeps what ``log`` has said."""

    def __init__(self, log: JsonLines, silos: Sequence[SiloName], classes: Sequence[str]) -> None:
        self._log, self._silos, self._classes = log, tuple(silos), tuple(classes)
        self._records: list[Mapping[str, Any]] = []

    def course(self) -> Course:
        """What the log says by now. Raises RunError for one that is damaged."""
        lines, begun_again = self._log.news()
        if begun_again:
            self._records = []
        try:
            self._records += [self._log.record(line) for line in lines]
            return self._columns()
        except DAMAGED:
            raise self._log.damaged() from None

    def _columns(self) -> Course:
        records = self._records
        runs = [_numbers(record, _OF_RUN) for record in records]
        silos = [{str(silo): _numbers(sent, _OF_SILO) for silo, sent in record["silos"].items()} for record in records]
        names = (*self._silos, *sorted({silo for row in silos for silo in row} - set(self._silos)))
        of_run = {name: np.full(len(records), np.nan) for row in (dict.fromkeys(_OF_RUN, 0.0), *runs) for name in row}
        known = dict.fromkeys((*_OF_SILO, *(name for row in silos for of in row.values() for name in of)))
        of_silo = {name: np.full((len(records), len(names)), np.nan) for name in known}
        quality: dict[SiloName, Mapping[str, float]] = {}
        absences: list[Absence] = []
        since = None
        for row, record in enumerate(records):
            number = record["round"]
            for name, value in runs[row].items():
                of_run[name][row] = value
            for place, silo in enumerate(names):
                for name, value in silos[row].get(silo, {}).items():
                    of_silo[name][row, place] = value
            for silo, sent in record["silos"].items():
                if told := sent.get("quality"):
                    quality[str(silo)] = {name: float(v) for name, v in told.items() if isinstance(v, int | float)}
            absences += [Absence(number, str(silo), str(why)) for silo, why in (record.get("absent") or {}).items()]
            since = (since or number) if record.get("fixed_point") else None
        counts = [record.get("class_counts") or {} for record in records]
        return Course(
            silos=names,
            number=np.array([record["round"] for record in records], dtype=np.int64),
            run=of_run,
            silo=of_silo,
            classes=np.array([[finite(of.get(name)) for name in self._classes] for of in counts]).reshape(
                len(records), len(self._classes)
            ),
            absences=tuple(absences),
            # The first of the last rounds that are at a fixed point.
            fixed_point=since,
            quality=quality,
        )


def _numbers(said: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """What is known by these names, and scores by theirs."""
    known = {name: finite(said.get(name)) for name in names}
    return known | {name: finite(value) for name, value in (said.get("scores") or {}).items()}


def finite(value: Any) -> float:
    """A number of a JSON file; NaN for none, and for one without end. Raises as ``float``.

    >>> finite(3), finite(None), finite(float("inf"))
    (3.0, nan, nan)
    """
    number = float("nan") if value is None else float(value)
    return number if math.isfinite(number) else float("nan")
