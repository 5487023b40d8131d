"""FedCT with the joint labeler: silos train one labeler by noisy secure sums, and all learn its labels.

The labeler: ``labelers/joint_linear.py``. Each step is a round, in which each silo adds a noisy gradient; in one more
round each silo's own model learns the labels, whatever learner it is, and nothing leaves.

A step whose sum cannot be opened is lost (``noisy_sums.py``): training goes on with the next one from the same weights.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedct_flwr import labelers, models
from fedct_flwr.coordinator.label_rounds import add_global_model
from fedct_flwr.coordinator.noisy_sums import NoisySums
from fedct_flwr.coordinator.questions import RoundConsensus, facts_of, no_targets
from fedct_flwr.coordinator.summing import Lost
from fedct_flwr.privacy.budget import unit_of
from fedct_flwr.runs.run_folder import Checkpoint
from fedct_flwr.text.printable import logger
from fedct_flwr.types import RunError
from fedct_flwr.wire.content import Instruction, Joint, Query
from fedct_flwr.wire.sums import GRADIENTS

if TYPE_CHECKING:
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.labelers.joint_linear import Descent


_LOST_IN_A_ROW: Final = 3
"""Failed steps in a row after which the run stops, as each spends privacy."""
_ROUGHLY: Final = 2
"""Times as many records as were announced are still believed."""


def _kept(progress: "Descent") -> dict[str, Any]:
    """The arrays of ``progress`` by name, without empty ones. The step is left out: it is the checkpoint's round."""
    found = progress._asdict()
    return {name: value for name, value in found.items() if name != "step" and value.size}


class JointTraining:
    """One run, by a ``plan`` without weights."""

    def __init__(self, title: str, plan: Joint, study: "Study", grid: Grid) -> None:
        self._title, self._plan, self._study = title, plan, study
        self._labeler = labelers.joint_labeler(self._plan, study.subject.public, study.subject.schema)
        self._sums = NoisySums(study, grid, GRADIENTS)
        self._lost_in_a_row = 0
        self._query = Query(0, study.terms.num_public)

    def run(self) -> dict[str, Any]:
        """All rounds, to what ``result.json`` tells. Raises RunError."""
        study, before = self._study, self._study.checkpoint
        plan, labeler = self._labeler.plan, self._labeler
        logger.info(
            "Joint labeler: %s steps of %s numbers, epsilon %g at delta %g for each record against everybody, if %s "
            "silos are honest",
            plan.steps, labeler.start.weights.size, plan.epsilon, plan.delta, plan.honest,
        )  # fmt: skip
        logger.info("What to expect: %s", labelers.expected(plan.num_records, plan.epsilon, plan.delta)[1])
        progress = labeler.start
        if before is not None:
            progress = progress._replace(step=min(before.round, plan.steps), **before.state)
        nothing, learned = no_targets(study.terms.num_public), before is not None and before.round > plan.steps
        if not learned:
            self._sums.wait()
        while progress.step < plan.steps:
            joint = self._plan._replace(weights=progress.weights)
            instruction = Instruction(progress.step + 1, self._query, nothing, joint=joint)
            opened = self._opened(instruction)
            progress = labeler.lost(progress) if opened is None else labeler.step(progress, opened)
            study.folder.save_checkpoint(Checkpoint(progress.step, nothing, _kept(progress)))
        lost = self._check_lost()
        labels = labeler.label(labeler.weights(progress), study.subject.public.X)
        if not learned:
            instruction = Instruction(plan.steps + 1, self._query, labels, joint=self._plan)
            valid, absent, asked = self._sums.ask(instruction)
            votes = dict.fromkeys(valid, labels)
            facts = facts_of(GRADIENTS, votes, [], RoundConsensus(labels, nothing, labels), study.terms).of_round
            self._sums.note(instruction, len(asked), valid, absent, facts=facts)
            study.folder.save_checkpoint(Checkpoint(plan.steps + 1, labels, _kept(progress)))
        study.folder.save_labels(labels, study.terms.classes)
        result = {
            "epsilon": plan.epsilon, "delta": plan.delta, "unit": str(unit_of(grouped=study.config.grouped)),
            "steps": plan.steps, "numbers": labeler.noise.numbers, "honest": plan.honest,
            "noise_multiplier": labeler.noise.event().noise_multiplier,
            "labeler": "additive" if plan.bins else "linear",
            **({"lost": lost} if lost else {}),
        }  # fmt: skip
        promise = models.promised_together(study.config, plan.epsilon, plan.delta)
        made = add_global_model(study, labels, self._title, promise) if study.config.student else {}
        return {"joint": result, **made}

    def _opened(self, instruction: Instruction) -> NDArray[np.uint64] | None:
        """The sum of a step; None where it is lost. Raises RunError where that cannot go on."""
        try:
            found, _ = self._sums.opened(instruction, self._wrong)
        except Lost as why:
            self._lost_in_a_row += 1
            if self._lost_in_a_row == _LOST_IN_A_ROW:
                raise RunError(
                    f"{why}; no sum was opened for {_LOST_IN_A_ROW} steps in a row: see to the silos, then resume the "
                    "run"
                ) from None
            logger.warning("%s; this step is lost, and training goes on with the next one", why)
            self._sums.wait()
            return None
        self._lost_in_a_row = 0
        return found

    def _wrong(self, total: NDArray[np.uint64], silos: int) -> str:
        # The number of records was announced, roughly. A silo may add garbage.
        if self._labeler.could_be(total, _ROUGHLY * self._plan.records, silos):
            return ""
        return (
            f"that no records of {silos} silos add up to: one of them does not follow the protocol, and the sum does "
            f"not show which, or they have more than {_ROUGHLY} times the {self._plan.records} records that were "
            "agreed upon"
        )

    def _check_lost(self) -> int:
        """How many steps have no sum. Raises RunError where labels would come of too few steps."""
        steps = self._labeler.plan.steps
        lost = sum(not record["silos"] for record in self._study.folder.rounds()[:steps])
        if 2 * lost > steps:
            raise RunError(
                f"{lost} of {steps} steps have no secure sum, so the labels would mean little: see to the silos, then "
                "start a new run, for which they have to approve another budget"
            )
        return lost
