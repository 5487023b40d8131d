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
    """All rounds that have ended. NaN stands for what the log does not have.

    ``number`` and each column of ``run`` are ``(rounds,)``, each of ``silo`` is ``(rounds, silos)`` in the order of
    ``silos``, ``classes`` is ``(rounds, classes)``: public examples that carry the class's label. Columns are named as
    in ``rounds.jsonl``, scores by their names. ``quality`` is the last that the consensus said of each silo.
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
        self._forget()

    def _forget(self) -> None:
        self._numbers: list[int] = []
        self._run: list[dict[str, float]] = []
        self._of_silos: list[dict[SiloName, dict[str, float]]] = []
        self._counts: list[list[float]] = []
        self._absences: list[Absence] = []
        self._fixed: list[bool] = []
        self._quality: dict[SiloName, dict[str, float]] = {}

    def course(self) -> Course:
        """What the log says by now. Raises RunError for one that is damaged."""
        lines, anew = self._log.news()
        if anew:
            self._forget()
        try:
            for line in lines:
                self._add(self._log.record(line))
        except DAMAGED:
            raise self._log.damaged() from None
        return self._columns()

    def _add(self, record: Mapping[str, Any]) -> None:
        run = {name: finite(record.get(name)) for name in _OF_RUN}
        run |= {name: finite(value) for name, value in (record.get("scores") or {}).items()}
        silos = {}
        for silo, sent in record["silos"].items():
            silos[str(silo)] = {name: finite(sent.get(name)) for name in _OF_SILO}
            silos[str(silo)] |= {name: finite(value) for name, value in (sent.get("scores") or {}).items()}
            if quality := sent.get("quality"):
                told = {name: float(value) for name, value in quality.items() if isinstance(value, int | float)}
                self._quality[str(silo)] = told
        counts = record.get("class_counts") or {}
        number = record["round"]
        self._absences += [Absence(number, str(silo), str(why)) for silo, why in (record.get("absent") or {}).items()]
        self._counts.append([finite(counts.get(name)) for name in self._classes])
        self._fixed.append(bool(record.get("fixed_point")))
        self._numbers.append(number)
        self._run.append(run)
        self._of_silos.append(silos)

    def _columns(self) -> Course:
        seen = {silo for silos in self._of_silos for silo in silos}
        names = (*self._silos, *sorted(seen - set(self._silos)))
        place = {silo: column for column, silo in enumerate(names)}
        size = len(self._numbers)
        of_run = {name: np.full(size, np.nan) for run in self._run for name in run}
        of_silo = {name: np.full((size, len(names)), np.nan) for name in _OF_SILO}
        for row, (run, silos) in enumerate(zip(self._run, self._of_silos, strict=True)):
            for name, value in run.items():
                of_run[name][row] = value
            for silo, values in silos.items():
                for name, value in values.items():
                    if name not in of_silo:
                        of_silo[name] = np.full((size, len(names)), np.nan)
                    of_silo[name][row, place[silo]] = value
        return Course(
            silos=names,
            number=np.array(self._numbers, dtype=np.int64),
            run={name: np.zeros(0) for name in _OF_RUN} | of_run,
            silo=of_silo,
            classes=np.array(self._counts).reshape(size, len(self._classes)),
            absences=tuple(self._absences),
            fixed_point=self._fixed_since(),
            quality=dict(self._quality),
        )

    def _fixed_since(self) -> int | None:
        """The first of the last rounds that are at a fixed point."""
        since = None
        for number, fixed in zip(self._numbers, self._fixed, strict=True):
            since = (since or number) if fixed else None
        return since


def finite(value: Any) -> float:
    """A number of a JSON file; NaN for none, and for one without end. Raises as ``float``.

    >>> finite(3), finite(None), finite(float("inf"))
    (3.0, nan, nan)
    """
    number = float("nan") if value is None else float(value)
    return number if math.isfinite(number) else float("nan")
