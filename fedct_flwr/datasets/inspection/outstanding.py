"""A column that tells far more of the label than all others together: a code that is given with the diagnosis.

Below 95% of the records no share tells a proxy from an honest sign. But signs of an illness go with other signs of it,
and together these tell as much. A discharge code that is right in nine of ten records has no company.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.scores import Scores, correlated, fit, rule
from fedct_flwr.text.printable import quoted

_FEWEST: Final = 200
_FEWEST_OTHERS: Final = 3
_TELLS: Final = 0.5
"""Of the label's variance: a correlation of 0.7."""
_TIMES: Final = 3.0

_Floats = NDArray[np.float64]


def outstanding(tables: Sequence[Scores], label: str, known: Collection[str] = ()) -> Iterator[Finding]:
    """Columns of the silos' tables with that much more to tell of two classes, or of a number to predict."""
    if not tables or label not in tables[0].names:
        return
    owner, names = tables[0].owner, tables[0].names
    values = np.concatenate([each.values for each in tables])
    mine = owner == names.index(label)
    if mine.sum() != 1 or len(values) < _FEWEST or len(names) <= _FEWEST_OTHERS + 1:
        return
    matrix = correlated(values, values)
    if not matrix[mine, mine].all():
        return
    alone = {at: _told(matrix, owner == at, mine) for at in range(len(names)) if names[at] != label}
    best = max(alone, key=alone.__getitem__)
    others = ~mine & (owner != best)
    if names[best] in known or alone[best] < _TELLS or alone[best] < _TIMES * _told(matrix, others, mine):
        return
    said = f"column {quoted(names[best])} tells far more of {quoted(label)} than all other columns together"
    fix = f"take it out of all tables if it is known only after {quoted(label)} is"
    yield Finding("tells-the-label", Severity.SAID, said, fix, names[best])


def _told(matrix: _Floats, columns: NDArray[np.bool_], mine: NDArray[np.bool_]) -> float:
    """The share of a score's variance that others tell."""
    return fit(matrix, rule(matrix, mine, columns), mine, columns) ** 2
