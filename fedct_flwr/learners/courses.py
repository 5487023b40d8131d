"""Work of networks: steps of training on batches, and labels; by a silo's network or by many as one.

On CUDA a training step is a graph: one launch for a step, not one for each of its kernels. As PyTorch's manual has it
("CUDA semantics", whole-network capture): a few steps as usual, then one is captured, which reads its batch and its
learning rate from fixed places in memory.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from fedct_flwr.config.learner import Training
from fedct_flwr.learners.base import NO_CORRECTION, Correction
from fedct_flwr.learners.catalog import MAKING
from fedct_flwr.learners.trained_network import over
from fedct_flwr.text.printable import logger
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


Step = Callable[[Tensor, Tensor], None]
"""Learns a batch of examples and their labels."""
_EAGER: Final = 3
"""Steps before one is captured, as CUDA asks for."""
_STREAMS: Final[defaultdict[torch.device, list[torch.cuda.Stream]]] = defaultdict(list)
"""Those that no thread is using: each has memory of its own, which the next one finds again."""


class Steps:
    """Takes a step for each batch, all of one shape, with an optimizer; again and again with what it has captured.

    ``generators`` are those that the step draws from, besides torch's own.
    """

    def __init__(self, step: Step, optimizer: Optimizer, generators: Sequence[Generator] = ()) -> None:
        self._step, self._optimizer, self._generators = step, optimizer, generators
        self._device = optimizer.param_groups[0]["params"][0].device
        self._taken = 0
        self._replay: Step | None = None
        self._rates: list[Tensor] = []

    def take(self, batches: Iterable[tuple[Tensor, Tensor]], rate: Callable[[int], float] | None = None) -> None:
        """Take the steps of some batches; ``rate`` gives the learning rate of each, from 0."""
        groups = self._optimizer.param_groups
        before = [dict(group) for group in groups]
        try:
            with _own_stream(self._device):
                if self._replay:
                    self._read_rates()
                for number, (X, y) in enumerate(batches):
                    for group in groups if rate else ():
                        now = rate(number)  # type: ignore[misc]
                        group["lr"] = group["lr"].fill_(now) if isinstance(group["lr"], Tensor) else now
                    if self._taken == _EAGER and self._device.type == "cuda":
                        self._capture(X, y)
                    self._taken += 1
                    (self._replay or self._step)(X, y)
        finally:
            for group, kept in zip(groups, before, strict=True):
                group.update(kept)

    def _read_rates(self) -> None:
        """Have the optimizer read its rates from where the graph does."""
        groups = self._optimizer.param_groups
        self._rates = self._rates or [torch.zeros((), device=self._device) for _ in groups]
        for group, rate in zip(groups, self._rates, strict=True):
            group.update(lr=rate.fill_(group["lr"]), capturable=True)

    def _capture(self, X: Tensor, y: Tensor) -> None:
        """Make a graph of the step, unless it looks at the numbers that it computes, which no graph can do."""
        held_X, held_y, graph = X.clone(), y.clone(), torch.cuda.CUDAGraph()
        before = [dict(group) for group in self._optimizer.param_groups]
        self._read_rates()
        for generator in self._generators:
            graph.register_generator_state(generator)
        # One whose state has been in a capture that failed cannot draw any more.
        general = torch.cuda.default_generators[self._device.index or 0]
        state: Any = general.graphsafe_get_state()
        general.graphsafe_set_state(general.clone_state())
        torch.cuda.current_stream().synchronize()
        try:
            # The work of other threads is not captured, but they must not seed the generator.
            with MAKING:
                graph.capture_begin(capture_error_mode="thread_local")
                self._step(held_X, held_y)
                graph.capture_end()
        except RuntimeError as error:
            with suppress(RuntimeError):
                graph.capture_end()
            general.graphsafe_set_state(state)
            for group, kept in zip(self._optimizer.param_groups, before, strict=True):
                group.update(kept)
            logger.info("A training step is no CUDA graph, so it takes longer (%s)", str(error).partition("\n")[0])
            return

        def replay(X: Tensor, y: Tensor) -> None:
            held_X.copy_(X)
            held_y.copy_(y)
            graph.replay()

        self._replay = replay


@contextmanager
def _own_stream(device: torch.device) -> Iterator[None]:
    """On CUDA another stream than the default one, on which nothing can be captured."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        free, default = _STREAMS[device], torch.cuda.current_stream()
        own = free.pop() if free else torch.cuda.Stream()  # type: ignore[no-untyped-call]
        own.wait_stream(default)
        try:
            with torch.cuda.stream(own):
                yield
        finally:
            default.wait_stream(own)
            free.append(own)
