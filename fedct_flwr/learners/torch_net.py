"""Any ``nn.Module`` as a learner that trains on from round to round, on the device at hand.

Nothing is copied in the hot loop but the batch: data stay on the device, batches are gathered by position.
"""

import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedct_flwr.config.learner import Training
from fedct_flwr.files import write_atomically
from fedct_flwr.learners import MEETING, NO_CORRECTION, Correction
from fedct_flwr.learners.networks import Course, Labeling, Part, Steps, augmented, blocks, correct, steps_to_fit
from fedct_flwr.learners.out_of_fold import class_weights
from fedct_flwr.learners.trained_network import (
    TrainedNetwork,
    as_floats,
    over,
    said_in_one_sentence,
    seeded,
    without_denormals,
)
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, DataError, Examples, Features, HardLabels, TrainingError

_DISTILLATION_RATE: Final = 1e-3
_BLOCK: Final = 1 << 19
"""Bytes of batches that are gathered at a time."""
_NOTHING: Final = np.zeros(0, dtype=LABEL_DTYPE)
"""Labels of no public example."""
_PUBLIC_BATCH: Final = 4
"""Public examples with probabilities for each private one of a minibatch."""


class TorchLearner(TrainedNetwork):
    """A network with its optimizer. Satisfies all protocols of ``learners``.

    A minibatch is ``batch_size`` private examples and as many pseudo-labeled ones, in one mean cross-entropy; balanced:
    weighted so that on average all classes count the same. ``total_steps`` are those of a network that only fits. On a
    GPU a large network runs in bfloat16 where that is safe (autocast), its weights stay float32.
    """

    suffix = ".safetensors"
    _here: bytes | None = None
    """Where it stands, by a mark or in bytes, as long as it does: bytes take milliseconds to write and to read."""
    _marked: tuple[bytes, tuple[Any, ...]] = secrets.token_bytes(16), ()

    def __init__(
        self,
        make_network: Callable[[], nn.Module],
        num_classes: int,
        training: Training,
        *,
        total_steps: int = 1000,
        augment: tuple[str, ...] = (),
        seed: int = 0,
        device: str = "auto",
        transformer: Any = None,
    ) -> None:
        self._training, self._total_steps, self._augment = training, total_steps, augment
        super().__init__(
            make_network,
            num_classes,
            learning_rate=training.learning_rate,
            weight_decay=training.weight_decay,
            seed=seed,
            device=device,
            transformer=transformer,
        )

    def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Train a new network for ``total_steps`` or ``epochs``, in batches of ``batch_size``. Raises TrainingError."""
        if sample_weight is not None:
            raise ConfigError("a network takes no sample weights: pseudo-weight applies to its batches")
        self.reset()
        self._train(Examples(X, y), X[:0], _NOTHING, 1.0, steps_to_fit(self._training, len(y), self._total_steps))
        return self

    def advance(self, private: Examples, public: Features, targets: HardLabels, pseudo_weight: float) -> None:
        """Train on for one round's steps. Raises TrainingError, with the state of before, if the loss is not finite."""
        with self._undone_if_it_fails():
            self._train(private, public, targets, pseudo_weight, self._training.local_steps)

    def advance_soft(self, private: Examples, public: Features, targets: NDArray[np.float32], weight: float) -> None:
        """The steps of ``advance``, each on ``batch_size`` private examples and four times as many public ones.

        The loss of a step is ``mean CE(private, labels) + weight * mean CE(public, targets)``, and the batches are the
        paper's 64 and 256 by default (Fan et al., arXiv:2305.18497, equation 3 and Appendix G.1). Raises TrainingError.
        """
        with self._undone_if_it_fails():
            self._train_soft(private, public, targets, weight)

    @property
    def network(self) -> nn.Module:
        """The network as it is now."""
        return self._network

    def label(self, public: Features, positions: NDArray[np.intp]) -> HardLabels:
        labeling = Labeling(self, self._on_device(public), positions if len(positions) < len(public) else None)
        meeting = MEETING.get()
        if meeting and self._device.type == "cuda":
            meeting.train(labeling)
        return self.labels_of(labeling.examples) if labeling.labels is None else labeling.labels

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(name for name, weight in self._network.named_parameters() if weight.requires_grad)

    @property
    def reach(self) -> float | None:
        """Steps of a round times the learning rate; None with Adam, which rescales gradients, or a rate that falls."""
        training, fixed = self._training, self._training.optimizer == "sgd" and not self._training.decay_steps
        return training.local_steps * training.learning_rate if fixed else None

    def advance_corrected(self, private: Examples, correction: Correction) -> None:
        """The steps of ``advance`` on private examples alone, each with its gradient corrected. Raises TrainingError.

        The mean cross-entropy's gradient is corrected before the optimizer sees it: with Adam it is as if the loss had
        the terms that these are the gradients of, ``pull / 2 * |w - w_begun|^2 + <shift, w>``.
        """
        with self._undone_if_it_fails():
            self._train(private, private.X[:0], _NOTHING, 1.0, self._training.local_steps, correction)

    def weights(self) -> dict[str, NDArray[Any]]:
        return {name: value.detach().cpu().numpy().copy() for name, value in self._network.state_dict().items()}

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Take over parameters and buffers; the optimizer stays. Raises TrainingError if they do not fit."""
        self._here = None
        try:
            self._network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
        except RuntimeError as error:
            raise TrainingError(f"the weights do not fit the network: {error}") from error

    def logits(self, X: Features) -> NDArray[np.float32]:
        return np.asarray(self._logits(self._tensor(X)).float().cpu().numpy())

    def distill(self, X: Features, targets: NDArray[np.float32], steps: int) -> None:
        """Minibatch steps on the cross-entropy with ``targets``, whose gradient is that of the KL divergence.

        By an Adam of their own, with a rate that declines from 1e-3 to 0 along a cosine (Lin et al., arXiv:2006.07242,
        §4.1). Which examples a step takes depends on where training stands. Raises TrainingError.
        """
        adam = torch.optim.Adam(self._trained, lr=_DISTILLATION_RATE)
        everything, wanted = self._tensor(X), torch.from_numpy(targets).to(self._device)
        rng = torch.Generator().manual_seed(self._next_seed)
        rows = torch.randint(len(X), (steps, self._training.batch_size), generator=rng).to(self._device)
        course = self._course(((everything, wanted, rows),))
        with self._undone_if_it_fails():
            with seeded(course.seed, self._device):
                course.worst = self._descend(
                    course, adam, lambda step: _DISTILLATION_RATE * (1 + math.cos(math.pi * step / steps)) / 2
                )
            self._finish(course)

    def dump(self) -> bytes:
        if self._here is None:
            self._here = super().dump()
        return super().dump() if self._here == self._marked[0] else self._here

    def mark(self) -> bytes:
        """A name (16 bytes) for where it stands, to ``restore`` until it is marked again: quicker than ``dump``."""
        if self._here != self._marked[0]:
            self._marked = secrets.token_bytes(16), self._snapshot()
            self._here = self._marked[0]
        return self._marked[0]

    def restore(self, state: bytes) -> None:
        if state != self._here:
            self._here = None
            self._put_back(self._marked[1]) if state == self._marked[0] else super().restore(state)
            self._here = state

    def reset(self) -> None:
        self._here = None
        super().reset()

    def save(self, path: Path) -> None:
        """Write network and optimizer in safetensors format."""
        write_atomically(path, self.dump())

    def load(self, path: Path) -> Self:
        """Take over a saved network and optimizer. Raises DataError."""
        try:
            self.restore(path.read_bytes())
        except (OSError, TrainingError) as error:
            raise DataError(f"cannot read the model {path}: {error}") from error
        return self

    def make_optimizer(self, weights: list[Tensor]) -> torch.optim.Optimizer:
        if self._training.optimizer == "adam":
            return super().make_optimizer(weights)
        return torch.optim.SGD(
            weights, lr=self._learning_rate, weight_decay=self._weight_decay, fused=self._device.type in ("cpu", "cuda")
        )

    @contextmanager
    def _undone_if_it_fails(self) -> Iterator[None]:
        here, before = self._here, self._snapshot()
        self._here = None
        try:
            with said_in_one_sentence(self._lower_for_memory):
                yield
        except TrainingError:
            self._put_back(before)
            self._here = here
            raise

    def _train(
        self,
        private: Examples,
        public: Features,
        targets: HardLabels,
        pseudo_weight: float,
        steps: int,
        correction: Correction = NO_CORRECTION,
    ) -> None:
        size = self._training.batch_size
        weights: Tensor | None = None
        if pseudo_weight != 1.0 and (targets != ABSTAIN).any():
            weights = torch.ones(2 * size, device=self._device)
            weights[size:] = pseudo_weight
            weights /= weights.sum()
        of_class = self._class_weights(private.y, targets, pseudo_weight) if self._training.balanced else None
        labels = [torch.from_numpy(y.astype(np.int64)).to(self._device) for y in (private.y, targets)]
        parts = self._parts(private.X, public, labels, np.flatnonzero(targets != ABSTAIN), size, steps)
        self._learn(self._course(parts, weights, of_class, correction))

    def _train_soft(self, private: Examples, public: Features, targets: NDArray[np.float32], weight: float) -> None:
        own, labeled = self._training.batch_size, np.flatnonzero(targets.any(axis=1))
        others = _PUBLIC_BATCH * own
        weights = torch.full((own + others,), 1 / own, device=self._device)
        weights[own:] = weight / others
        certain = torch.eye(self._num_classes, dtype=torch.float32, device=self._device)
        wanted = torch.from_numpy(targets.astype(np.float32)).to(self._device)
        if self._training.balanced:
            shares = np.bincount(private.y, minlength=self._num_classes) / private.size
            shares = shares + weight * targets[labeled].mean(axis=0)
            of_class = torch.from_numpy(class_weights(shares).astype(np.float32)).to(self._device)
            certain, wanted = certain * of_class, wanted * of_class
        labels = [certain[torch.from_numpy(private.y.astype(np.int64)).to(self._device)], wanted]
        parts = self._parts(private.X, public, labels, labeled, others, self._training.local_steps)
        self._learn(self._course(parts, weights))

    @property
    def _next_seed(self) -> int:
        """Where training stands decides what it draws: a silo that goes on from a stored state draws the same."""
        return self._seed + self._steps_done

    def _parts(
        self, X: Features, public: Features, labels: list[Tensor], labeled: NDArray[np.intp], others: int, steps: int
    ) -> tuple[Part, ...]:
        """In each step as many private examples as the batch size says, and ``others`` of the ``labeled`` public."""
        rng = torch.Generator().manual_seed(self._next_seed)
        rows = torch.randint(len(X), (steps, self._training.batch_size), generator=rng).to(self._device)
        # A language model's texts are no longer than the longest, which is looked up once, not in each step.
        trimmed = getattr(self._network, "trimmed", lambda *X: X)
        if not len(labeled):
            return ((*trimmed(self._on_device(X)), labels[0], rows),)
        of_public = over(labeled)[torch.randint(len(labeled), (steps, others), generator=rng)].to(self._device)
        own, public_ones = trimmed(self._on_device(X), self._on_device(public))
        return (own, labels[0], rows), (public_ones, labels[1], of_public)

    def _course(self, parts: tuple[Part, ...], *more: Any) -> Course:
        at = (self._network, self._optimizer, self._training, self._augment, self._steps_done, self._next_seed)
        return Course(self, *at, parts, *more)

    def _learn(self, course: Course) -> None:
        """Take the steps, together with other silos' networks where they wait for each other. Raises TrainingError."""
        if meeting := MEETING.get():
            meeting.train(course)
        else:
            self.take(course)
        self._finish(course)

    def _finish(self, course: Course) -> None:
        self._here = None
        self._steps_done += course.steps
        if not math.isfinite(course.worst):
            raise TrainingError("the loss is not finite: lower the learning rate, or look for values out of range")

    def take(self, course: Course) -> None:
        """Take the steps of a course, alone."""
        # Dropout draws from torch's global generator (which threads share: only then are draws not repeatable).
        with seeded(course.seed, self._device):
            course.worst = self._descend(course, self._optimizer, course.rate)

    def _class_weights(self, y: HardLabels, targets: HardLabels, pseudo_weight: float) -> Tensor:
        """Of the classes ``(classes,)``, by their shares in an average batch: half of it is private, half public."""
        shares = np.bincount(y, minlength=self._num_classes) / len(y)
        pseudo = targets[targets != ABSTAIN]
        if len(pseudo):
            shares = shares + pseudo_weight * np.bincount(pseudo, minlength=self._num_classes) / len(pseudo)
        return torch.from_numpy(class_weights(shares).astype(np.float32)).to(self._device)

    @without_denormals()
    @torch.enable_grad()
    def _descend(
        self, course: Course, optimizer: torch.optim.Optimizer, rate: Callable[[int], float] | None = None
    ) -> float:
        """One optimizer step per batch, with its gradient corrected; the largest loss, or NaN if there was one."""
        precision = course.precision
        network, pull = self._network.train(), course.correction.pull
        weights = dict(network.named_parameters())
        begun = {name: weight.detach().clone() for name, weight in weights.items() if pull}
        shift = {name: torch.tensor(value, device=self._device) for name, value in course.correction.shift.items()}
        # Looked at once, at the end: to look at every step would make the device wait for us.
        worst = torch.zeros((), device=self._device)

        def step(batch: Tensor, labels: Tensor) -> None:
            optimizer.zero_grad(set_to_none=True)
            batch = augmented(as_floats(batch), self._augment)
            with precision:
                logits = network(batch)
            losses = nn.functional.cross_entropy(logits.float(), labels, reduction="none")
            if course.of_class is not None:
                # Not divided by their sum in this batch: one without the rare class would pull as hard as one with it.
                losses = losses * course.of_class[labels]
            loss = losses.mean() if course.weights is None else (losses * course.weights).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            if begun or shift:
                correct(weights, begun, pull, shift)
            optimizer.step()
            torch.maximum(worst, loss.detach(), out=worst)

        batches = (batch for X, y in blocks([course], _BLOCK) for batch in zip(X[:, 0], y[:, 0], strict=True))
        Steps(step, optimizer).take(batches, rate)
        return float(worst)


def num_values(make: Callable[[], nn.Module]) -> int:
    """How many numbers the state of such a network has; no memory is taken for them."""
    with torch.device("meta"):
        return sum(value.numel() for value in make().state_dict().values())
