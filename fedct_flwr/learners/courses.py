"""Work of networks: steps of training on batches, and labels; by a silo's network or by many as one."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedct_flwr.config.learner import Training
from fedct_flwr.learners.base import NO_CORRECTION, Correction
from fedct_flwr.learners.trained_network import over
from fedct_flwr.types import HardLabels

_LAST_RATE: Final = 0.01
"""The share of the learning rate that is left of it in the end, where it falls."""


def steps_to_fit(training: Training, num_examples: int, total_steps: int) -> int:
    """Minibatch steps of a network that is trained once on ``num_examples``: by epochs, or else ``total_steps``.

    >>> steps_to_fit(Training(), 1000, 50), steps_to_fit(Training(epochs=100), 1000, 50)
    (50, 1600)
    """
    return training.epochs * math.ceil(num_examples / training.batch_size) if training.epochs else total_steps


def rate_of(training: Training, step: int) -> float:
    """The learning rate of a step (from 0) where it falls along half a cosine to a hundredth, and stays there.

    Loshchilov and Hutter, "SGDR", arXiv:1608.03983, equation 5, without restarts. It ends above 0, so that training
    after ``decay_steps`` still learns.

    >>> training = Training.model_validate({"learning-rate": 1.0, "decay-steps": 100})
    >>> [round(rate_of(training, step), 3) for step in (0, 50, 100, 999)]
    [1.0, 0.505, 0.01, 0.01]
    """
    fallen: float = (1 - math.cos(math.pi * min(1.0, step / training.decay_steps))) / 2
    return training.learning_rate * (1 - (1 - _LAST_RATE) * fallen)


Tensors: TypeAlias = Mapping[str, Tensor]
Part: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Examples, their labels (classes ``(examples,)`` or probabilities ``(examples, classes)``), and the rows of each step
``(steps, n)``."""


@dataclass(eq=False)
class Course:
    """One call to train one network, after ``begun`` steps; ``worst`` is its largest loss in the end, NaN if one was.

    ``parts`` are private examples and perhaps public ones, side by side in each batch. ``augment`` names how images are
    changed at random (``learners.networks``).
    An example's loss is multiplied by what its place in the batch weighs (``weights`` ``(n,)``, by default 1/n) and
    what its class does (``of_class`` ``(classes,)``). ``seed`` decides what dropout and augmentation draw.
    """

    learner: Any
    network: nn.Module
    optimizer: torch.optim.Optimizer
    training: Training
    augment: tuple[str, ...]
    begun: int
    seed: int
    parts: tuple[Part, ...]
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
        training, begun = self.training, self.begun
        return (lambda step: rate_of(training, begun + step)) if training.decay_steps else None

    @property
    def precision(self) -> torch.autocast:
        """That of the network's steps."""
        precision: torch.autocast = self.learner.precision(self.some)
        return precision

    @property
    def some(self) -> Tensor:
        """The private examples of the first step."""
        X, _, rows = self.parts[0]
        return X[rows[0]]

    @property
    def steps(self) -> int:
        """Minibatches."""
        return len(self.parts[0][2])


def blocks(courses: Sequence[Course], most_bytes: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The examples of all steps, some steps at once ``(steps, networks, n, ...)``, and their labels.

    All silos' examples are gathered from one tensor: of public ones all have the same.
    """
    examples, labels = [], []
    for part in zip(*(course.parts for course in courses), strict=True):
        X, y, rows = zip(*part, strict=True)
        labels.append(torch.stack([own[taken] for own, taken in zip(y, rows, strict=True)], dim=1))
        same = all(own is X[0] for own in X)
        before = [0] * len(X) if same else [0, *accumulate(len(own) for own in X)][:-1]
        at = torch.stack([taken + first for taken, first in zip(rows, before, strict=True)], dim=1)
        examples.append((X[0] if same else torch.cat(X), at))
    targets = torch.cat(labels, dim=2)
    size = sum(rows[0].numel() * X[0].nbytes for X, rows in examples)
    at_once = max(1, most_bytes // max(1, size))
    for first in range(0, len(targets), at_once):
        steps = slice(first, first + at_once)
        yield torch.cat([X[rows[steps]] for X, rows in examples], dim=2), targets[steps]


@torch.no_grad()
def correct(weights: Tensors, begun: Tensors, pull: float, shift: Tensors) -> None:
    """Add the terms of a ``learners.base.Correction`` to gradients; ``begun`` are the weights before, if any pull.

    A weight that the loss does not depend on has no gradient, and stays where it is.
    """
    for name, weight in weights.items():
        if weight.grad is not None and name in begun:
            weight.grad.add_(weight - begun[name], alpha=pull)
        if weight.grad is not None and name in shift:
            weight.grad.add_(shift[name])


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
