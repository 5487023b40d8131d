"""What the counts behind a drawn public set tell of who was counted: in simulations with other members each time."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.audit.attacks import Observation, counted
from fedct_flwr.audit.members import Candidates, with_members
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, pool, take
from fedct_flwr.drawing.marginals import GRID
from fedct_flwr.drawing.simulated import placed, plan_of, sum_of
from fedct_flwr.types import SiloName

_EXACT: Final = 1.0
"""Records: an attacker who takes noise for so small finds out whether it was left out."""


class Counting:
    """A run's counts, for an attacker who knows all records but which of the candidates are members."""

    def __init__(self, config: RunConfig, dataset: FederatedDataset, candidates: Candidates) -> None:
        self._dataset, self._candidates, self._plan = dataset, candidates, plan_of(dataset, config)
        self._y = {silo.name: take(silo.private, candidates[silo.name]).y for silo in dataset.silos}
        X, y = pool([take(silo.private, candidates[silo.name]) for silo in dataset.silos])
        cells = self._plan.form.place(X)[0]
        self._records = np.stack([self._plan.counts(cells[i : i + 1], y[i : i + 1]) for i in range(len(y))]) / GRID
        self._known = self._counts({silo: np.zeros(len(y), dtype=np.bool_) for silo, y in self._y.items()}, None)

    def seen(self, members: Mapping[SiloName, NDArray[np.bool_]], seed: int) -> dict[SiloName, Observation]:
        """What the sum of counts tells of each silo's candidates, of which these are members."""
        opened = self._counts(members, seed) - self._known
        widths = {"counts": self._plan.noise.scale / GRID, "exact counts": _EXACT}
        scores = {name: counted(opened, self._records, width) for name, width in widths.items()}
        found, start = {}, 0
        for silo, y in self._y.items():
            part = slice(start, start := start + len(y))
            found[silo] = Observation(y, counts={name: values[part] for name, values in scores.items()})
        return found

    def _counts(self, members: Mapping[SiloName, NDArray[np.bool_]], seed: int | None) -> NDArray[np.float64]:
        """Of all records but candidates that are no members; without a seed, without noise."""
        held = with_members(self._dataset, self._candidates, members, planted=False)
        cells, y, _ = placed(self._plan.form, held.silos)
        counts = self._plan.counts(cells, y) if seed is None else sum_of(self._plan, cells, y, seed)
        return np.asarray(counts / GRID)
