"""What networks are asked to do: steps of training on batches, and labels; by a silo's network or by many as one."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedct_flwr.config.learner import Optimizer
from fedct_flwr.learners.base import NO_CORRECTION, Correction
from fedct_flwr.learners.trained_network import over
from fedct_flwr.types import HardLabels

_LAST_RATE: Final = 0.01
"""The share of the learning rate that is left of it in the end, where it falls."""


@dataclass(frozen=True)
class Training:
    """How a network is trained. ``steps`` are minibatch steps per round, ``total_steps`` those of a whole run.

    A network that only fits trains for ``epochs``, if there are any, instead of ``total_steps``. A minibatch is
    ``batch_size`` private examples and as many pseudo-labeled ones, in one mean cross-entropy; ``balanced``: weighted
    so that on average all classes count the same. ``optimizer`` is Adam, or plain SGD without momentum.
    ``augment`` names how each batch of images is changed at random (``learners.networks``). The rate falls over
    ``decay_steps`` of all rounds, if there are any.
    """

    steps: int = 50
    total_steps: int = 1000
    batch_size: int = 64
    learning_rate: float = 1e-3
    decay_steps: int = 0
    weight_decay: float = 0.0
    optimizer: Optimizer = "adam"
    balanced: bool = False
    epochs: int = 0
    augment: tuple[str, ...] = ()

    def steps_to_fit(self, num_examples: int) -> int:
        """Minibatch steps of a network that is trained once on ``num_examples``.

        >>> Training(total_steps=50).steps_to_fit(1000), Training(epochs=100, batch_size=64).steps_to_fit(1000)
        (50, 1600)
        """
        return self.epochs * math.ceil(num_examples / self.batch_size) if self.epochs else self.total_steps

    def share_of_rate(self, step: int) -> float:
        """The share of the learning rate that a step (from 0) has where it falls: along half a cosine to a hundredth.

        Loshchilov and Hutter, "SGDR", arXiv:1608.03983, equation 5, without restarts. It ends above 0, so that training
        after ``decay_steps`` still learns.

        >>> [round(Training(decay_steps=100).share_of_rate(step), 3) for step in (0, 50, 100, 999)]
        [1.0, 0.505, 0.01, 0.01]
        """
        fallen = (1 - math.cos(math.pi * min(1.0, step / self.decay_steps))) / 2
        return 1 - (1 - _LAST_RATE) * fallen


class Batches(NamedTuple):
    """What steps learn: private examples, and perhaps public ones: all of them, their labels, and which each takes.

    Labels are classes ``(examples,)`` or probabilities ``(examples, classes)``; rows are ``(steps, n)``.
    """

    parts: tuple[tuple[Tensor, Tensor, Tensor], ...]

    def of(self, steps: slice) -> tuple[Tensor, Tensor]:
        """The examples and labels of some steps, ``(steps, n, ...)``."""
        X, y = zip(*((X[rows[steps]], labels[rows[steps]]) for X, labels, rows in self.parts), strict=True)
        return (torch.cat(X, dim=1), torch.cat(y, dim=1)) if len(X) > 1 else (X[0], y[0])

    @property
    def steps(self) -> int:
        return len(self.parts[0][2])

    def blocks(self, most_bytes: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All steps' examples and labels, those of several steps gathered at once."""
        size = sum(rows[0].numel() * X[0].nbytes for X, _, rows in self.parts)
        at_once = max(1, most_bytes // max(1, size))
        return (self.of(slice(first, first + at_once)) for first in range(0, self.steps, at_once))


@dataclass(eq=False)
class Course:
    """One call to train one network, after ``begun`` steps; ``worst`` is its largest loss in the end, NaN if one was.

    An example's loss is multiplied by what its place in the batch weighs (``weights`` ``(n,)``, by default 1/n) and
    what its class does (``of_class`` ``(classes,)``). ``seed`` decides what dropout and augmentation draw.
    """

    learner: Any
    network: nn.Module
    optimizer: torch.optim.Optimizer
    training: Training
    begun: int
    seed: int
    batches: Batches
    weights: Tensor | None = None
    of_class: Tensor | None = None
    correction: Correction = NO_CORRECTION
    worst: float = math.nan

    def take(self) -> None:
        """Take it, alone. Raises what the network does."""
        self.learner.take(self)

    @property
    def rate(self) -> Callable[[int], float] | None:
        """The learning rate of each step, where it falls."""
        told, begun = self.training, self.begun
        return (lambda step: told.learning_rate * told.share_of_rate(begun + step)) if told.decay_steps else None

    @property
    def precision(self) -> torch.autocast:
        """That of the network's steps."""
        precision: torch.autocast = self.learner.precision(self.batches.of(slice(1))[0][0])
        return precision


@dataclass(eq=False)
class Labeling:
    """One call to label examples: those at some ``rows`` of ``X``, or all of them."""

    learner: Any
    X: Tensor
    rows: NDArray[np.intp] | None
    labels: HardLabels | None = None

    def take(self) -> None:
        """Label them, alone. Raises TrainingError."""
        self.labels = self.learner.labels_of(self.examples)

    @property
    def examples(self) -> Tensor:
        """Those to label ``(n, ...)``."""
        return self.X if self.rows is None else self.X[over(self.rows).to(self.X.device)]

    def same(self, other: "Labeling") -> bool:
        """Whether the other one is about the same examples."""
        return self.X is other.X and np.array_equal(self.rows, other.rows)  # type: ignore[arg-type]
