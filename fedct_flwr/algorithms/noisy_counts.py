"""Counts with noise from real silos' records: one secure sum, opened once.

``CountedPatients`` asks how many match; ``DrawnSet`` draws a public set from the counts of values. A silo's part:
``silo/noisy_sum.py``. The noise, its words and the examples: ``drawing/counts.py``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import coordinator, drawing, labelers, silo
from fedct_flwr.coordinator.algorithm import Algorithm
from fedct_flwr.files import write_atomically
from fedct_flwr.runs.run_folder import Checkpoint
from fedct_flwr.types import ConfigError, RunError, generator
from fedct_flwr.wire.content import Histograms, Instruction, Query
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.sums import HISTOGRAMS, PATIENTS, HistogramCounts

if TYPE_CHECKING:
    # An algorithm as an object waits for none of these, nor for the extra privacy.
    from flwr.serverapp import Grid

    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.datasets.study_folder import StudyFolder
    from fedct_flwr.drawing.counts import CountPlan, DrawingPlan


_COUNTS = "columns"
"""The opened sum, in a checkpoint."""


def folder_of(study: "Study") -> "StudyFolder":
    """The study of real silos as its folder describes it."""
    return cast("StudyFolder", study.subject.folder)


@dataclass(frozen=True)
class Counting(Algorithm):
    """One question for counts with noise."""

    fixed_rounds: ClassVar[int] = 1
    instead: ClassVar[str]
    """The remedy in a simulation."""

    def check(self, config: "RunConfig", dataset: "FederatedDataset | None") -> None:
        """Raise ConfigError in a simulation, or without the extra privacy."""
        labelers.check_extra("privacy", f"algorithm {self.name!r}")
        if dataset is not None:
            raise ConfigError(f"algorithm {self.name!r} asks real silos: in a simulation {self.instead}")

    def opened(
        self, study: "Study", grid: "Grid", asked: Histograms, plan: "DrawingPlan | CountPlan"
    ) -> tuple[NDArray[np.int64], int]:
        """The opened sum ``(numbers,)``, and how many silos are in it. Raises RunError.

        A sum that was opened stays in the checkpoint, and is asked for no more.
        """
        kind = cast(HistogramCounts, self.kind)
        known = study.checkpoint.state.get(_COUNTS) if study.checkpoint else None
        if known is not None:
            return known, len(study.folder.rounds()[-1]["silos"])
        nothing, sums = coordinator.no_targets(study.terms.num_public), coordinator.NoisySums(study, grid, kind)
        sums.wait()
        # Only a sum that silos have added to is a round: what too few were ready for is asked again, at no cost.
        number = len(study.folder.rounds()) + 1
        study.folder.save_checkpoint(Checkpoint(number, nothing, {}))
        try:
            total, silos = sums.opened(
                Instruction(number, Query(0, len(nothing)), nothing, histograms=asked),
                lambda total, silos: plan.wrong(total.view(np.int64), silos),
            )
        except coordinator.Lost as why:
            paid = (
                "an earlier run has asked for this sum: resume that run"
                if why.repeated
                else "the silos have paid for it: see to them, let them approve a higher epsilon under [privacy], then "
                "resume the run"
            )
            raise RunError(f"{why}; {paid}") from None
        opened = total.view(np.int64)
        study.folder.save_checkpoint(Checkpoint(number, nothing, {_COUNTS: opened}))
        return opened, silos


@dataclass(frozen=True)
class CountedPatients(Counting):
    """How many patients of all silos have a record that meets a condition."""

    count_where: str = ""
    """The condition on the study's columns, such as "age >= 65 and crp > 10"."""
    count_by: str = ""
    """A column for whose categories patients are counted; empty: all together."""

    name: ClassVar[str] = "count"
    title: ClassVar[str] = "Counts of patients"
    kind: ClassVar[Kind] = PATIENTS
    predicts_quantities: ClassVar[bool] = True
    instead: ClassVar[str] = "call fedct_flwr.count()"

    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Open the sum, and return what ``result.json`` tells. Raises RunError or ConfigError."""
        folder = folder_of(study)
        question = drawing.PatientCount.of(self.count_where, self.count_by, folder.schema, folder.config.columns)
        plan = silo.count_plan(folder, question)
        asked = Histograms(folder.digest, plan.numbers, question.where.text, self.count_by)
        opened, silos = self.opened(study, grid, asked, plan)
        facts = {"study": folder.digest.hex(), "where": asked.where, "by": asked.by, "silos": silos}
        facts |= {"epsilon": plan.epsilon, "delta": plan.delta, **plan.facts(question.cells, opened, silos)}
        return {"count": facts}


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
