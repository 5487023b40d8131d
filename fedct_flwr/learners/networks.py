"""Networks for tables and images, and torchvision's; and their work: steps of training on batches, and labels.

All networks take float images with channels first, or flat rows where the first layer flattens anyway, and return
logits. Images may be changed at random, each on its own, while a network trains: a silo's, or many networks as one.

On CUDA a training step is a graph: one launch for a step, not one for each of its kernels. As PyTorch's manual has it
("CUDA semantics", whole-network capture): a few steps as usual, then one is captured, which reads its batch and its
learning rate from fixed places in memory.
"""

import importlib
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from fedct_flwr.config.learner import Training
from fedct_flwr.learners import NO_CORRECTION, Correction
from fedct_flwr.learners.catalog import MAKING
from fedct_flwr.learners.trained_network import over
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ConfigError, HardLabels

_LIBRARY: list[Any] = []
"""Definitions of missing operators, kept as long as the process lives."""


def mend_torchvision() -> None:
    """Have ``import torchvision`` work where it lacks compiled operators, which no network here needs."""
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARY.append(library)
        importlib.import_module("torchvision")


def torchvision_network(model: str, num_classes: int, weights: str | None = None) -> nn.Module:
    """A torchvision classification network by name, such as ``efficientnet_b0``, for images ``(n, 3, height, width)``.

    ``weights``, such as ``DEFAULT``, are downloaded at first use. Raises ConfigError for other networks.
    """
    mend_torchvision()
    from torchvision import models

    # The others, for segmentation and detection, download what their backbone was trained to even without weights.
    if model not in models.list_models(module=models):
        raise ConfigError(
            f"torchvision has no classification network {model!r}: take one such as 'resnet18' or 'efficientnet_b0'"
        )
    network: nn.Module
    if weights is None:
        network = models.get_model(model, weights=None, num_classes=num_classes)
        return network
    network = models.get_model(model, weights=weights)
    name, last = [*network.named_modules()][-1]
    if not isinstance(last, nn.Linear):
        raise ConfigError(f"{model!r} does not end in a linear layer: make the network yourself, see examples")
    network.set_submodule(name, nn.Linear(last.in_features, num_classes))
    return network


def mlp(num_features: int, num_classes: int, width: int = 64) -> nn.Module:
    """Two hidden layers of ``width``: 512 for FashionMNIST in the FedCT paper (arXiv:2310.05696, Table 13)."""
    hidden = [nn.Linear(num_features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, num_classes))


def small_cnn(num_classes: int = 2, num_channels: int = 3, width: int = 16) -> nn.Module:
    """A network of a few thousand weights for images of any size, gray or color."""
    blocks: list[nn.Module] = []
    channels = num_channels
    for wide in (width, 2 * width, 4 * width):
        # Rounded up, so that an image of one pixel passes, too.
        pool = nn.MaxPool2d(2, ceil_mode=True)
        blocks += [nn.Conv2d(channels, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(), pool]
        channels = wide
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


_SHIFT: Final = 8
"""An image moves by at most its side divided by this."""
_BRIGHTNESS: Final = 0.2


def augmented(batch: Tensor, kinds: Iterable[str], generator: Generator | None = None) -> Tensor:
    """Images ``(n, channels, height, width)`` in 0..1, changed in these ways, one after the other.

    Without a ``generator``, torch's own draws.
    """
    for kind in kinds:
        batch = AUGMENTATIONS[kind](batch, generator)
    return batch


def _flipped(axis: int) -> Callable[[Tensor, Generator | None], Tensor]:
    def flip(batch: Tensor, generator: Generator | None) -> Tensor:
        return torch.where(_uniform(batch, generator) < 0.5, batch.flip(axis), batch)

    return flip


def _uniform(batch: Tensor, generator: Generator | None) -> Tensor:
    return torch.rand(len(batch), 1, 1, 1, device=batch.device, generator=generator)


def _shifted(batch: Tensor, generator: Generator | None) -> Tensor:
    """Moved, with the pixels at the edge repeated into the gap."""
    each = torch.arange(len(batch), device=batch.device)[:, None, None, None]
    channels = torch.arange(batch.shape[1], device=batch.device)[None, :, None, None]
    rows, columns = (_moved(batch, side, generator) for side in batch.shape[2:])
    return batch[each, channels, rows[:, None, :, None], columns[:, None, None, :]]


def _moved(batch: Tensor, side: int, generator: Generator | None) -> Tensor:
    """For each image, from where its pixels along one side come, ``(count, side)``."""
    most = max(1, side // _SHIFT)
    by = torch.randint(-most, most + 1, (len(batch), 1), device=batch.device, generator=generator)
    return (torch.arange(side, device=batch.device) + by).clamp(0, side - 1)


def _brightened(batch: Tensor, generator: Generator | None) -> Tensor:
    factor = 1 + _BRIGHTNESS * (2 * _uniform(batch, generator) - 1)
    return (batch * factor).clamp(0, 1)


AUGMENTATIONS: Final[Mapping[str, Callable[[Tensor, Generator | None], Tensor]]] = MappingProxyType(
    {"flip": _flipped(3), "flip-vertically": _flipped(2), "shift": _shifted, "brightness": _brightened}
)
"""Half of the images mirrored; moved by at most an eighth of their side; up to a fifth darker or brighter."""


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
    changed at random (``AUGMENTATIONS``).
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
    """Add the terms of a ``learners.Correction`` to gradients; ``begun`` are the weights before, if any pull.

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
