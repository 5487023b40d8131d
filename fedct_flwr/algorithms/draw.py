"""A public set from real silos' records: a secure sum of counts with noise, and examples that are drawn from it.

The counts and the examples: ``drawing/marginals.py``. A silo's part: ``silo/noisy_sum.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import coordinator, drawing, labelers, silo
from fedct_flwr.coordinator.algorithm import Algorithm
from fedct_flwr.files import write_atomically
from fedct_flwr.runs.run_folder import Checkpoint
from fedct_flwr.seeding import generator
from fedct_flwr.types import ConfigError, RunError
from fedct_flwr.wire.content import Histograms, Instruction, Query
from fedct_flwr.wire.kinds import HISTOGRAMS, Kind

if TYPE_CHECKING:
    # An algorithm as an object waits for neither, nor for the extra privacy.
    from flwr.serverapp import Grid

    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.datasets.study_folder import StudyFolder
    from fedct_flwr.drawing.marginals import Plan

FILE: Final = "public.csv"
"""The drawn set, in the run's folder."""
_COUNTS: Final = "columns"


@dataclass(frozen=True)
class DrawnSet(Algorithm):
    """Counts of real silos' values, and the public set that is drawn from them."""

    name: ClassVar[str] = "draw"
    title: ClassVar[str] = "Drawn public set"
    kind: ClassVar[Kind] = HISTOGRAMS
    fixed_rounds: ClassVar[int] = 1
    also_real: ClassVar[tuple[str, ...]] = ("draw-rows",)

    def check(self, config: "RunConfig", dataset: "FederatedDataset | None") -> None:
        """Raise ConfigError in a simulation, which draws its set before a run, or without the extra privacy."""
        labelers.check_extra("privacy", f"algorithm {self.name!r}")
        if dataset is not None:
            raise ConfigError(
                f"algorithm {self.name!r} asks real silos: in a simulation set public to 'drawn', and choose the "
                "algorithm that uses the set"
            )

    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Open the sum, draw the set, write it, and return what ``result.json`` tells. Raises RunError.

        A sum that was opened stays in the checkpoint, and is asked for no more.
        """
        plan, rows = silo.plan_of(cast("StudyFolder", study.subject.folder)), study.config.draw_rows
        opened = study.checkpoint.state.get(_COUNTS) if study.checkpoint else None
        if opened is None:
            opened = self._opened(study, grid, plan)
        X, note = drawing.draw(plan, opened, rows, generator(study.config.seed, "drawn set"))
        write_atomically(study.folder.path / FILE, plan.form.csv(X))
        facts = {"epsilon": plan.epsilon, "delta": plan.delta, "honest": plan.honest}
        return {"drawn": {**facts, "rows": rows, "note": note}}

    def _opened(self, study: "Study", grid: "Grid", plan: "Plan") -> NDArray[np.int64]:

        nothing, sums = coordinator.no_targets(study.terms.num_public), coordinator.NoisySums(study, grid, HISTOGRAMS)
        asked = Histograms(cast("StudyFolder", study.subject.folder).digest, plan.noise.numbers)
        sums.wait()
        # Only a sum that silos have added to is a round: what too few were ready for is asked again, at no cost.
        number = len(study.folder.rounds()) + 1
        study.folder.save_checkpoint(Checkpoint(number, nothing, {}))
        try:
            opened = sums.opened(
                Instruction(number, Query(0, len(nothing)), nothing, histograms=asked),
                lambda total, silos: plan.wrong(total.view(np.int64), silos),
            ).view(np.int64)
        except coordinator.Lost as why:
            raise RunError(
                f"{why}; the silos have paid for it: see to them, let them approve a higher epsilon under "
                "[privacy], then resume the run"
            ) from None
        study.folder.save_checkpoint(Checkpoint(number, nothing, {_COUNTS: opened}))
        return opened
