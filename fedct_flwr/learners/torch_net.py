"""Any ``nn.Module`` as a learner that trains on from round to round, on the device at hand.

Nothing is copied in the hot loop but the batch: data stay on the device, batches are gathered by position.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from fedct_flwr.atomic import write_atomically
from fedct_flwr.learners.catalog import MAKING
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, DataError, Examples, Features, HardLabels, TrainingError

_PREDICT_BATCH: Final = 1024


@dataclass(frozen=True)
class Training:
    """How a network is trained. ``steps`` are minibatch steps per round, ``total_steps`` those of a whole run.

    A minibatch is ``batch_size`` private examples and as many pseudo-labeled ones, in one mean cross-entropy.
    """

    steps: int = 50
    total_steps: int = 1000
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.0


def choose_device(name: str) -> torch.device:
    """``auto`` (CUDA, then MPS, then CPU), ``cpu``, ``cuda``, ``cuda:1``, ``mps``. Raises ConfigError if not there."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise ConfigError(f"device {name!r} is not there: use 'auto' or one of {', '.join(there)}") from None
    return device


class TorchLearner:
    """A network with its optimizer (Adam). Satisfies all protocols of ``learners.base``.

    ``make_network`` returns a fresh ``nn.Module`` that maps ``(n, ...)`` to logits ``(n, num_classes)``.
    On a GPU the network runs in bfloat16 where that is safe (autocast), its weights stay float32.
    """

    suffix = ".safetensors"

    def __init__(
        self,
        make_network: Callable[[], nn.Module],
        num_classes: int,
        training: Training,
        *,
        seed: int = 0,
        device: str = "auto",
        transformer: Any = None,
    ) -> None:
        self._make_network = make_network
        self._num_classes = num_classes
        self._training = training
        self._seed = seed
        self._device = choose_device(device)
        self._transformer = transformer
        # The two arrays that every round needs, private and public, and their tensors on the device.
        self._resident: list[tuple[Features, Tensor]] = []
        self.reset()

    def reset(self) -> None:
        """A fresh network, as at the start of a run."""
        with MAKING, torch.random.fork_rng():
            torch.manual_seed(self._seed)
            self._network = self._make_network().to(self._device)
        self._optimizer = torch.optim.Adam(
            self._network.parameters(),
            lr=self._training.learning_rate,
            weight_decay=self._training.weight_decay,
            fused=self._device.type in ("cpu", "cuda"),
        )
        self._steps_done = 0

    def check_output(self, X: Features) -> None:
        """Raise ConfigError unless the network maps examples like these to one logit per class."""
        try:
            with torch.inference_mode():
                shape = tuple(self._network.eval()(self._tensor(X[:2])).shape)
        except Exception as error:
            raise ConfigError(
                f"the network does not take features of shape {X.shape[1:]}, use one that is made for them (for tables "
                f"see examples/own_network.py): {error}"
            ) from error
        if shape != (len(X[:2]), self._num_classes):
            raise ConfigError(
                f"the network's output for two examples has shape {shape}: it must be one logit for each of the "
                f"{self._num_classes} classes"
            )

    def fit(self, X: Features, y: HardLabels, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Train a fresh network for ``total_steps`` on batches of ``batch_size``. Raises TrainingError."""
        if sample_weight is not None:
            raise ConfigError("a network takes no sample weights: pseudo-weight applies to its batches")
        self.reset()
        nothing = np.full(0, ABSTAIN, dtype=LABEL_DTYPE)
        self._train(Examples(X, y), X[:0], nothing, 1.0, self._training.total_steps)
        return self

    def predict(self, X: Features) -> HardLabels:
        """The class of each example, ``(n,)``."""
        return self._predict(self._tensor(X))

    def advance(self, private: Examples, public: Features, targets: HardLabels, pseudo_weight: float) -> None:
        """Train on for one round's steps. Raises TrainingError, with the state of before, if the loss is not finite."""
        before = self.dump()
        try:
            self._train(private, public, targets, pseudo_weight, self._training.steps)
        except TrainingError:
            self.restore(before)
            raise

    def label(self, public: Features, positions: NDArray[np.intp]) -> HardLabels:
        """The class of the public examples at these positions."""
        everything = self._on_device(public)
        if len(positions) == len(public):
            return self._predict(everything)
        return self._predict(everything[torch.from_numpy(positions).to(self._device)])

    def dump(self) -> bytes:
        """Network and optimizer in safetensors format."""
        tensors = {f"network.{name}": value for name, value in self._network.state_dict().items()}
        for number, values in self._optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
        tensors["steps"] = torch.tensor(self._steps_done)
        return save({name: value.detach().cpu().contiguous() for name, value in tensors.items()})

    def restore(self, state: bytes) -> None:
        """Go on from a dump. Raises TrainingError if it is not one of this network's. Runs no code."""
        try:
            tensors = load(state)
            self._steps_done = int(tensors.pop("steps"))
            prefix = "network."
            network = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            self._network.load_state_dict(network)
            moments: dict[int, dict[str, Tensor]] = {}
            for name, value in tensors.items():
                if name.startswith("optimizer."):
                    _, number, field = name.split(".")
                    moments.setdefault(int(number), {})[field] = value
            groups = self._optimizer.state_dict()["param_groups"]
            self._optimizer.load_state_dict({"state": moments, "param_groups": groups})
        except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
            raise TrainingError(f"the stored state does not fit the network: {error}") from error

    def weights(self) -> dict[str, NDArray[Any]]:
        """The network's parameters and buffers by name; copies."""
        return {name: value.detach().cpu().numpy().copy() for name, value in self._network.state_dict().items()}

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Take over parameters and buffers; the optimizer stays. Raises TrainingError if they do not fit."""
        try:
            self._network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
        except RuntimeError as error:
            raise TrainingError(f"the weights do not fit the network: {error}") from error

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

    def _train(
        self, private: Examples, public: Features, targets: HardLabels, pseudo_weight: float, steps: int
    ) -> None:
        # Where training stands decides what it draws, so a silo that goes on from a stored state draws the same.
        seed = self._seed + self._steps_done
        weights: Tensor | None = None
        if pseudo_weight != 1.0 and (targets != ABSTAIN).any():
            weights = torch.ones(2 * self._training.batch_size, device=self._device)
            weights[self._training.batch_size :] = pseudo_weight
        # Dropout draws from torch's global generator (which threads share: only then are draws not repeatable).
        with _seeded(seed, self._device):
            worst = self._descend(self._batches(private, public, targets, steps, seed), weights)
        self._steps_done += steps
        if not math.isfinite(worst):
            raise TrainingError("the loss is not finite: lower the learning rate, or look for values out of range")

    def _batches(
        self, private: Examples, public: Features, targets: HardLabels, steps: int, seed: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        size, device = self._training.batch_size, self._device
        rng = torch.Generator().manual_seed(seed)
        X, y = self._on_device(private.X), torch.from_numpy(private.y.astype(np.int64)).to(device)
        rows = torch.randint(len(y), (steps, size), generator=rng).to(device)
        labeled = torch.from_numpy(np.flatnonzero(targets != ABSTAIN))
        if not len(labeled):
            yield from ((X[own], y[own]) for own in rows)
            return
        U, pseudo = self._on_device(public), torch.from_numpy(targets.astype(np.int64)).to(device)
        public_rows = labeled[torch.randint(len(labeled), (steps, size), generator=rng)].to(device)
        for own, other in zip(rows, public_rows, strict=True):
            yield torch.cat([X[own], U[other]]), torch.cat([y[own], pseudo[other]])

    def _descend(self, batches: Iterator[tuple[Tensor, Tensor]], weights: Tensor | None) -> float:
        """One optimizer step per batch; the largest loss, or NaN if there was one."""
        network, optimizer = self._network.train(), self._optimizer
        mixed_precision = torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda")
        worst = torch.zeros((), device=self._device)
        for batch, labels in batches:
            optimizer.zero_grad(set_to_none=True)
            with mixed_precision:
                logits = network(batch)
            losses = nn.functional.cross_entropy(logits.float(), labels, reduction="none")
            loss = losses.mean() if weights is None else (losses * weights).sum() / weights.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            # Looked at once, at the end: to look at every step would make the device wait for us.
            worst = torch.maximum(worst, loss.detach())
        return float(worst)

    @torch.inference_mode()
    def _predict(self, X: Tensor) -> HardLabels:
        network = self._network.eval()
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._device.type == "cuda"):
            parts = [network(part).argmax(dim=1) for part in torch.split(X, _PREDICT_BATCH)]
        labels: HardLabels = torch.cat(parts).cpu().numpy().astype(LABEL_DTYPE)
        return labels

    def _tensor(self, X: Features) -> Tensor:
        if self._transformer is not None:
            X = self._transformer.transform(X.astype(np.float64, copy=False))
        return torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32)).to(self._device)

    def _on_device(self, X: Features) -> Tensor:
        for array, tensor in self._resident:
            if array is X:
                return tensor
        self._resident = [*self._resident[-1:], (X, self._tensor(X))]
        return self._resident[-1][1]


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Set torch's global generator and put it back, both while no other thread creates a network from it."""
    with ExitStack() as before:
        with MAKING:
            before.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
            torch.manual_seed(seed)
        try:
            yield
        finally:
            with MAKING:
                before.close()
