"""The joint labeler that silos choose by a noisy sum: they begin both in the same sums, and go on with the better one.

Both: ``labelers/joint_linear.py``. A choice by noisy scores on records, all of whose parts are paid for: Chaudhuri,
Vinterbo, "A stability-based validation procedure for differentially private machine learning", NeurIPS 2013.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.joint_linear import Descent, JointLinear, Plan, check_weights, plan_for
from fedct_flwr.labelers.public_features import NORM
from fedct_flwr.privacy.noise_shares import NoiseShares
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.types import ConfigError, Features, HardLabels

BOTH: Final = 5
"""Steps that train both: an additive labeler has looked for its columns by then. The next one is the choice."""
AHEAD: Final = 4
"""A record counts so many times as much in which labeler is right as in how many records there are."""
_RAREST: Final = 10
"""No class counts as more than so many times rarer than its fair share, whatever noise makes of its size."""


class Plans(NamedTuple):
    """Of both labelers: what each of them does with its part of one budget."""

    linear: Plan
    additive: Plan


def plans_for(
    num_records: int, num_classes: int, *, epsilon: float, delta: float, honest: int, steps: int, additive_columns: int
) -> Plans:
    """Plans of both labelers, whose ``steps`` sums keep ``epsilon`` at ``delta`` for each record, choice included.

    ``additive_columns``: of the table. The rest is as for ``plan_for``. Raises ConfigError for impossible numbers, and
    for steps that are too few.
    """
    if steps < BOTH + 2:
        raise ConfigError(f"the number of steps of a choice of labelers is {steps}; set it to {BOTH + 2} or more")
    # While both are trained, each has half of what a sum costs, and then all of it.
    share = (BOTH / 2 + steps - 1 - BOTH) / steps
    linear, additive = (
        plan_for(
            num_records,
            num_classes,
            epsilon=epsilon,
            delta=delta,
            honest=honest,
            steps=steps - 1,
            additive_columns=columns,
            share=share,
        )
        for columns in (0, additive_columns)
    )
    return Plans(linear, additive)


class Ahead(NamedTuple):
    """By how much the additive labeler's balanced accuracy on all silos' records is higher, and the noise in that."""

    difference: float
    error: float
    """One standard deviation of the noise that is counted on."""


class JointChoice:
    """Both joint labelers of all silos, and the choice: what a silo sends for a step, and what follows from the sums.

    It has the methods of ``JointLinear``. Weights are those of both, the linear labeler's rows first. The first
    ``BOTH`` sums train both. Into the next one, silos put for each class how many records more the additive labeler
    labels rightly than the linear one, and how many records there are. The additive labeler wins where its balanced
    accuracy is higher by more than the noise of that sum, else the simpler one. From then on the other's weights are
    zero, and the remaining sums train the winner alone. A choice that is lost leaves the linear labeler.

    Balanced accuracy is measured on the records that labelers are trained on. What that flatters is little at the
    budgets that this is for, as noisy sums say little of each record.

    Formal guarantees:
        Unit, adjacency, what is taken as known, and from whom: as for ``JointLinear``. Each sum is a Gaussian mechanism
        with the noise multiplier of ``noise``, in proportion to what a record changes in it at most, **whatever the
        weights are**:

        - While both are trained, a record adds two matrices, each no longer than NORM * clip: sqrt(2) times that.
        - To the choice, a record of class c adds 1, 0 or -1 to how far ahead the additive labeler is in c, and 1 to the
          number of records in c. These count ``AHEAD * unit`` and ``unit``: together ``unit * sqrt(AHEAD^2 + 1)``,
          and ``unit`` is the largest integer for which that is no longer than the record's part in training both.
          A label depends on its record alone, to the last bit, so no record changes what another one adds.
        - When the winner is trained, a record adds one matrix, no longer than NORM * clip, and so the noise is less.

        So all sums cost the same, and ``event()`` is charged for each. The number of a step says what is added, and
        where weights of both are asked of one, they count as the linear labeler's: no question gets more.
    """

    def __init__(self, plans: Plans, public: Features, schema: Schema, *, seed: int) -> None:
        self.plan = replace(plans.linear, steps=plans.linear.steps + 1, share=1.0)
        alone = [JointLinear(plan, public, schema, seed=seed) for plan in plans]
        self._linear_size = alone[0].features.size
        self._size = sum(part.features.size for part in alone)
        self._parts = [part.sharing(self.noise) for part in alone]

    @cached_property
    def noise(self) -> NoiseShares:
        """What silos add to each sum until the choice is made. Raises ConfigError for a budget that no noise keeps."""
        return self.plan.shares(self._size, math.nextafter(math.sqrt(2) * NORM * self.plan.clip, math.inf))

    @cached_property
    def noise_of_winner(self) -> NoiseShares:
        """What silos add to each sum afterwards, at the same cost."""
        return replace(self.noise, sensitivity=float(NORM * self.plan.clip))

    @property
    def start(self) -> Descent:
        """Weights of zero."""
        zeros = np.zeros((self._size, self.plan.num_classes))
        return Descent(0, zeros, zeros)

    def vectors(self, X: Features) -> NDArray[np.float64]:
        """Integer features of a silo's records for both, to be made once. Raises DataError for another shape."""
        return np.concatenate([part.vectors(X) for part in self._parts], axis=1)

    def summand(
        self, vectors: NDArray[np.float64], y: HardLabels, weights: NDArray[np.float64], noise: Noise, step: int
    ) -> NDArray[np.uint64]:
        """What a silo puts into the sum of a step, counted from 0: its records' part and its share of the noise.

        Integers modulo 2^64. The silo charges ``self.noise.event()`` before, and calls this once for each step. Raises
        ValueError for weights of another shape, or that are no numbers: whatever they are, no record makes it fail.
        """
        check_weights(weights, self.start.weights)
        if step == BOTH:
            own, shares = self._counts(vectors, y, weights), self.noise
        else:
            trained = (0, 1) if step < BOTH else (self._winner(weights),)
            own = self._gradients(vectors, y, weights, trained)
            shares = self.noise if step < BOTH else self.noise_of_winner
        return (own.ravel() + shares.share(noise)).view(np.uint64)

    def step(self, progress: Descent, opened: NDArray[np.uint64]) -> Descent:
        """What follows from the opened sum of a step. Raises ValueError after the last step, or for another length."""
        if progress.step >= self.plan.steps or opened.shape != (progress.weights.size,):
            raise ValueError(f"step {progress.step} of {self.plan.steps} with a sum of shape {opened.shape}")
        if progress.step == BOTH:
            counts = opened.view(np.int64)[: 2 * self.plan.num_classes].reshape(2, -1) / self._unit
            return self._chosen(progress._replace(counts=counts / [[AHEAD], [1]]))
        return self._trained(progress, opened)

    def lost(self, progress: Descent) -> Descent:
        """What follows where the sum of a step cannot be opened. Raises ValueError as ``step``."""
        if progress.step >= self.plan.steps:
            raise ValueError(f"step {progress.step} of {self.plan.steps}")
        return self._chosen(progress) if progress.step == BOTH else self._trained(progress, None)

    def finished(self, progress: Descent) -> tuple[JointLinear, NDArray[np.float64]]:
        """The labeler that was chosen and its weights, once all steps are done. Raises ValueError before."""
        place = self._winner(progress.weights)
        return self._parts[place], self._parts[place].weights(self._descents(progress)[place])

    def told(self, progress: Descent) -> dict[str, Any]:
        """What the choice was made by; nothing of numbers where its sum was lost."""
        ahead = self.ahead(progress)
        return {"choice": {} if ahead is None else {"additive_ahead": ahead.difference, "error": ahead.error}}

    def ahead(self, progress: Descent) -> Ahead | None:
        """What the sum of the choice says; None where it was lost, or is yet to come."""
        if not progress.counts.size:
            return None
        ahead, sizes = progress.counts
        sizes = np.maximum(sizes, self.plan.num_records / (_RAREST * len(sizes)))
        error = self.noise.scale / (AHEAD * self._unit) * np.sqrt((1 / sizes**2).sum()) / len(sizes)
        return Ahead(float((ahead / sizes).mean()), float(error))

    def paths(self, weights: Sequence[NDArray[np.float64]]) -> list[tuple[JointLinear, list[NDArray[np.float64]]]]:
        """Each labeler, the winner last, and its weights before each of its steps, from those of a run's steps."""
        found = []
        for place, part in enumerate(self._parts):
            own = [self._split(one)[place] for one in weights]
            # The choice leaves the winner's weights as they are.
            found.append((part, own[: BOTH + 1] + [one for one in own[BOTH + 2 :] if one.any()]))
        return sorted(found, key=lambda path: len(path[1]))

    def _split(self, stacked: NDArray[Any]) -> list[NDArray[Any]]:
        """Of weights, or what is shaped like them: the linear labeler's rows, and the additive one's."""
        return np.split(stacked, [self._linear_size])

    def _winner(self, weights: NDArray[np.float64]) -> int:
        return 0 if self._split(weights)[0].any() else 1

    def _descents(self, progress: Descent) -> list[Descent]:
        """How far each labeler has come, which has no step where the choice is made."""
        step = progress.step - (progress.step > BOTH)
        parts = zip(self._split(progress.weights), self._split(progress.total), strict=True)
        return [Descent(step, weights, total) for weights, total in parts]

    def _gradients(
        self, vectors: NDArray[np.float64], y: HardLabels, weights: NDArray[np.float64], trained: Sequence[int]
    ) -> NDArray[np.int64]:
        """Of the labelers that are trained; zero for the other."""
        own = np.split(vectors, [self._linear_size], axis=1)
        parts = enumerate(zip(self._parts, own, self._split(weights), strict=True))
        return np.concatenate(
            [
                part.gradient(X, y, of_part) if place in trained else np.zeros(of_part.shape, dtype=np.int64)
                for place, (part, X, of_part) in parts
            ]
        )

    @cached_property
    def _unit(self) -> int:
        """Of a record in the counts, on the grid of the sums."""
        return math.floor(self.noise.sensitivity / math.hypot(AHEAD, 1))

    def _counts(self, vectors: NDArray[np.float64], y: HardLabels, weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """What a silo adds to the choice: for each class how far ahead the additive labeler is, then its records.

        Zeros follow, so that all sums are as long.
        """
        own = np.split(vectors, [self._linear_size], axis=1)
        parts = zip(self._parts, self._split(weights), own, strict=True)
        linear, additive = (part.label_exactly(of_part, X) == y for part, of_part, X in parts)
        of_class = y[:, None] == np.arange(self.plan.num_classes)
        ahead = (of_class * (additive.astype(np.int64) - linear)[:, None]).sum(axis=0)
        counts = np.concatenate([AHEAD * ahead, of_class.sum(axis=0)]) * self._unit
        return np.concatenate([counts, np.zeros(weights.size - len(counts), dtype=np.int64)])

    def _chosen(self, progress: Descent) -> Descent:
        """The loser's weights are zero from then on."""
        ahead = self.ahead(progress)
        kept = np.zeros((self._size, 1), dtype=np.bool_)
        won = int(ahead is not None and ahead.difference > ahead.error)
        self._split(kept)[won][:] = True
        weights, total = (np.where(kept, one, 0.0) for one in (progress.weights, progress.total))
        return Descent(progress.step + 1, weights, total, progress.counts)

    def _trained(self, progress: Descent, opened: NDArray[np.uint64] | None) -> Descent:
        trained = (0, 1) if progress.step < BOTH else (self._winner(progress.weights),)
        sums = [None, None] if opened is None else self._split(opened.reshape(progress.weights.shape))
        found = self._descents(progress)
        for place in trained:
            part, before, own = self._parts[place], found[place], sums[place]
            found[place] = part.lost(before) if own is None else part.step(before, own.ravel())
        weights, total = (np.concatenate(both) for both in ([d.weights for d in found], [d.total for d in found]))
        return Descent(progress.step + 1, weights, total, progress.counts)
