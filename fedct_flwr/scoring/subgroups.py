"""Scores by group, and how far each group is from all others: TRIPOD+AI, items 14 and 23."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from fedct_flwr.scoring.assessment import Labels, Predicted, assess
from fedct_flwr.scoring.intervals import Estimate, difference
from fedct_flwr.scoring.recalibration import FEW, events
from fedct_flwr.types import DataError, Examples, HardLabels

OTHERS: Final = "others"
"""The name of all small groups together."""


@dataclass(frozen=True)
class Group:
    """Records of one ``group`` (empty: all), its metrics, and how these differ from those of all other records."""

    group: str
    n: int
    events: int | None
    """None where a number is predicted."""
    metrics: dict[str, Estimate]
    gaps: dict[str, Estimate] = field(default_factory=dict)


class Subgroups(NamedTuple):
    """All records and their groups by name; the ``small`` ones are together."""

    groups: list[Group]
    small: list[str]


def subgroups(test: Examples, predicted: Predicted, of: Sequence[str], labels: Labels) -> Subgroups:
    """Assess the predictions of a test set, in all and by the group ``of`` each record ``(n,)``.

    Events are records of the positive class, without one those that lack the most frequent class. A group is small by
    the rarer of two classes, or by all records where a number is predicted. Raises DataError for a group that has the
    name of the small ones together.
    """

    def rare(y: HardLabels) -> int:
        return events(y) if labels.num_classes else len(y)

    def part(rows: np.ndarray) -> tuple[int, int | None, dict[str, Estimate]]:
        records, p = Examples(test.X[rows], test.y[rows]), predicted.probabilities
        found = assess(records, Predicted(predicted.answers[rows], None if p is None else p[rows]), labels)
        had = rare(records.y) if labels.positive is None else int((records.y == labels.positive).sum())
        return records.size, had if labels.num_classes else None, found.metrics

    names = np.array(of, dtype=object)
    everything = np.ones(test.size, dtype=np.bool_)
    small = [name for name in sorted(set(of)) if rare(test.y[names == name]) < FEW]
    if small and OTHERS in {*of}.difference(small):
        raise DataError(f"a group is called {OTHERS!r}, as all small groups together are: rename it")
    names[np.isin(names, small)] = OTHERS
    groups = [Group("", *part(everything))]
    for name in sorted(set(names)):
        (n, count, metrics), rest = part(names == name), part(names != name)[2]
        gaps = (
            {key: difference(one, rest[key]) for key, one in metrics.items() if key in rest} if n < len(names) else {}
        )
        groups.append(Group(name, n, count, metrics, gaps))
    return Subgroups(groups, small)
