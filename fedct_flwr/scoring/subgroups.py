"""Scores by group, and how far each group is from all others: TRIPOD+AI, items 14 and 23."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from fedct_flwr.scoring.assessment import FEW, Labels, Predicted, assess, events
from fedct_flwr.scoring.intervals import UNKNOWN, Estimate, difference
from fedct_flwr.types import DataError, Examples, HardLabels

OTHERS: Final = "others"
"""The name of all small groups together."""
OVER_CLASSES: Final = ("balanced_accuracy", "auc")
"""Means over the classes there are: of other classes they are other measures."""


@dataclass(frozen=True)
class Group:
    """Records of one ``group`` (empty: all), its metrics, and how these differ from those of all other records."""

    group: str
    n: int
    events: int | None
    """Records of the positive class; None where there are not two classes."""
    metrics: dict[str, Estimate]
    gaps: dict[str, Estimate] = field(default_factory=dict)


class Subgroups(NamedTuple):
    """All records and their groups by name; the ``small`` ones are together, and some are ``lacking`` classes."""

    groups: list[Group]
    small: list[str]
    lacking: dict[str, list[int]]


def subgroups(test: Examples, predicted: Predicted, of: Sequence[str], labels: Labels) -> Subgroups:
    """Assess the predictions of a test set, in all and by the group ``of`` each record ``(n,)``.

    A group is small by its records without the most frequent class, or by all records where a number is predicted.
    Means over classes have no gap where a group and the others have not the same classes. Raises DataError for a group
    with the name of the small ones.
    """

    def rare(y: HardLabels) -> int:
        return events(y) if labels.num_classes else len(y)

    def part(rows: np.ndarray) -> tuple[int, int | None, dict[str, Estimate]]:
        records, p = Examples(test.X[rows], test.y[rows]), predicted.probabilities
        found = assess(records, Predicted(predicted.answers[rows], None if p is None else p[rows]), labels)
        had = None if labels.positive is None else int((records.y == labels.positive).sum())
        return records.size, had, found.metrics

    names = np.array(of, dtype=object)
    everything = np.ones(test.size, dtype=np.bool_)
    small = [name for name in sorted(set(of)) if rare(test.y[names == name]) < FEW]
    if small and OTHERS in {*of}.difference(small):
        raise DataError(f"a group is called {OTHERS!r}, as all small groups together are: rename it")
    names[np.isin(names, small)] = OTHERS
    groups, lacking = [Group("", *part(everything))], {}
    for name in sorted(set(names)):
        (n, count, metrics), rest = part(names == name), part(names != name)[2]
        gaps = {key: difference(one, rest[key]) for key, one in metrics.items() if key in rest and n < len(names)}
        if labels.num_classes and gaps:
            own, others = ({*test.y[rows].tolist()} for rows in (names == name, names != name))
            if own != others:
                gaps |= dict.fromkeys(gaps.keys() & OVER_CLASSES, UNKNOWN)
            if others - own:
                lacking[name] = sorted(others - own)
        groups.append(Group(name, n, count, metrics, gaps))
    return Subgroups(groups, small, lacking)
