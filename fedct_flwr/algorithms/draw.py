"""A public set from real silos' records: a secure sum of counts with noise, and examples that are drawn from it.

The counts and the examples: ``drawing/counts.py``. A silo's part: ``silo/noisy_sum.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fedct_flwr import drawing, silo
from fedct_flwr.algorithms.count import Counting, folder_of
from fedct_flwr.files import write_atomically
from fedct_flwr.seeding import generator
from fedct_flwr.wire.content import Histograms
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.sums import HISTOGRAMS

if TYPE_CHECKING:
    # Needs the extra privacy.
    from flwr.serverapp import Grid

    from fedct_flwr.coordinator.study import Study

FILE: Final = "public.csv"
"""The drawn set, in the run's folder."""


@dataclass(frozen=True)
class DrawnSet(Counting):
    """Counts of real silos' values, and the public set that is drawn from them."""

    name: ClassVar[str] = "draw"
    title: ClassVar[str] = "Drawn public set"
    kind: ClassVar[Kind] = HISTOGRAMS
    instead: ClassVar[str] = "set public to 'drawn', and choose the algorithm that uses the set"
    also_real: ClassVar[tuple[str, ...]] = ("draw-rows",)

    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Open the sum, draw the set, write it, and return what ``result.json`` tells. Raises RunError."""
        folder, rows = folder_of(study), study.config.draw_rows
        plan = silo.plan_of(folder)
        opened, _ = self.opened(study, grid, Histograms(folder.digest, plan.noise.numbers), plan)
        X, note = drawing.draw(plan, opened, rows, generator(study.config.seed, "drawn set"))
        write_atomically(study.folder.path / FILE, plan.form.csv(X))
        facts = {"epsilon": plan.epsilon, "delta": plan.delta, "honest": plan.honest}
        return {"drawn": {**facts, "rows": rows, "note": note}}
