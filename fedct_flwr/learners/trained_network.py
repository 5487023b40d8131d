"""Base of all networks here: made from a seed, on a device, asked for labels, dumped and put back.

Data stay on the device: the arrays that a round needs are taken there once. Images of bytes stay bytes there, and
become 0..1 batch by batch.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.utils.flop_counter import FlopCounterMode

from fedct_flwr.datasets.federated import are_bytes
from fedct_flwr.learners import Averageable
from fedct_flwr.learners.catalog import MAKING, usual_torch
from fedct_flwr.learners.trained_model import apply, check_probabilities
from fedct_flwr.types import LABEL_DTYPE, ConfigError, Features, HardLabels, LearnerError, TrainingError

_SIGNS: Final = ("can't allocate memory", "not enough memory", "out of memory")
"""Words in torch's errors on a CPU and on GPUs."""


def is_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _SIGNS)


@contextmanager
def said_in_one_sentence(lower: str) -> Iterator[None]:
    """Turn errors of memory into a TrainingError that says what to ``lower``; all others pass."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_of_memory(error):
            raise
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        raise TrainingError(f"the machine has too little memory for the network: lower {lower}") from error


_PREDICT_BATCH: Final = 1024
_COUNTED: Final = 8
_PAYS: Final = 3e6
"""Additions and multiplications of an example from which bfloat16 takes less time on a GPU, conversions included.

Steps on an H100, in float32 and bfloat16: MLP 784-512-512-10 of 1.3 million .18 and .19 ms (batches of 128), small CNN
of 3.8 million .80 and .71 ms, MiniLM of 1,300 million 13.3 and 4.4 ms.
"""
_BRIGHTEST: Final = 255


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


_TWICE: Final = (
    "the network ends in probabilities, and training and prediction take their softmax once more: leave out its last "
    "Softmax or Sigmoid"
)


class TrainedNetwork:
    """A network with its optimizer and how many steps it has taken; how it is trained, subclasses know.

    The optimizer is Adam, unless a subclass makes another.

    ``make_network`` returns a fresh ``nn.Module`` that maps ``(n, ...)`` to logits ``(n, num_classes)``.
    """

    remark = ""
    """One sentence on outputs that are no logits, once ``check_output`` has seen them."""

    def __init__(
        self,
        make_network: Callable[[], nn.Module],
        num_classes: int,
        *,
        learning_rate: float,
        weight_decay: float = 0.0,
        seed: int,
        device: str,
        transformer: Any,
    ) -> None:
        self._make_network = make_network
        self._num_classes = num_classes
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay
        self._seed = seed
        self._device = choose_device(device)
        self._transformer = transformer
        # The two arrays that every round needs, private and public.
        self._resident: list[_OnDevice] = []
        self._pays: bool | None = None
        self.reset()

    @usual_torch()
    def reset(self) -> None:
        usual = torch.get_default_dtype()
        with MAKING, torch.random.fork_rng():
            torch.manual_seed(self._seed)
            # In single precision, whatever a notebook has set as torch's default: it would draw other weights.
            torch.set_default_dtype(torch.float32)
            try:
                self._network = self._make_network().to(self._device, torch.float32)
            finally:
                torch.set_default_dtype(usual)
        if any(isinstance(weight, UninitializedParameter) for weight in self._network.parameters()):
            raise LearnerError("the network has lazy layers, whose sizes are not known yet: give each layer its sizes")
        if not self._trained:
            raise LearnerError("no weight of the network can be trained, as all are frozen: set requires_grad of some")
        self._optimizer = self.make_optimizer(self._trained)
        self._steps_done = 0

    def __getstate__(self) -> dict[str, Any]:
        """A copy does without the data."""
        return {**self.__dict__, "_resident": []}

    def check_output(self, X: Features) -> None:
        """Raise LearnerError unless the network maps examples like these to one logit per class."""
        given: Any = X[:2]
        try:
            with torch.inference_mode():
                given = as_floats(self._tensor(given))
                output = self._network.eval()(given)
                shape = tuple(output.shape)
        except Exception as error:
            taken, made = tuple(given.shape[1:]), ""
            if taken != X.shape[1:] and X.dtype != np.object_:
                made = f", which preprocessing made of {X.shape[1:]} (preprocessing = 'none' leaves them as they are)"
            raise LearnerError(
                f"the network does not take features of shape {taken}{made}, use one that is made for them (for tables "
                f"see examples/own_network): {error}"
            ) from error
        if shape != (len(X[:2]), self._num_classes):
            raise LearnerError(
                f"the network's output for two examples has shape {shape}: it must be one logit for each of the "
                f"{self._num_classes} classes"
            )
        whole, last = output.sum(dim=1), [*self._network.modules()][-1]
        shares = isinstance(last, nn.Sigmoid) or torch.allclose(whole, torch.ones_like(whole))
        if shares and ((output >= 0) & (output <= 1)).all():
            self.remark = _TWICE

    def predict(self, X: Features) -> HardLabels:
        return self.labels_of(self._tensor(X))

    @torch.inference_mode()
    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64]:
        """The softmax of the network's logits, ``(n, num_classes)``."""
        network = self._network.eval()
        with said_in_one_sentence(self._lower_for_memory):
            parts = [network(as_floats(batch)).double().softmax(dim=1) for batch in self._split(self._tensor(X))]
            found: NDArray[np.float64] = torch.cat(parts).cpu().numpy()
        check_probabilities(found, model=type(self._network).__name__)
        return found

    @property
    def transformer(self) -> Any:
        """Preprocessing before the network; None without any."""
        return self._transformer

    def to_onnx(self, examples: Features, outputs: tuple[str, str]) -> bytes:
        """The network in ONNX format, for features like ``examples`` after the transformer, in single precision.

        The two ``outputs`` are the number of the class and the probabilities. Raises ImportError without onnxscript.
        """
        program = torch.onnx.export(
            _Decided(self._network).eval().cpu(), (torch.from_numpy(examples),), dynamo=True, opset_version=18,
            input_names=["prepared"], output_names=list(outputs), dynamic_shapes=({0: torch.export.Dim("n")},),
            verbose=False,
        )  # fmt: skip
        self._network.to(self._device)
        if program is None:
            raise ValueError("Not exported")
        content: bytes = program.model_proto.SerializeToString()
        return content

    def dump(self) -> bytes:
        """Network and optimizer in safetensors format."""
        tensors = {_NETWORK + name: value for name, value in self._network.state_dict().items()}
        for number, values in self._optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
        tensors["steps"] = torch.tensor(self._steps_done)
        return save({name: value.detach().cpu().contiguous() for name, value in tensors.items()})

    def restore(self, state: bytes) -> None:
        """Go on from a dump. Raises TrainingError if it is not one of this network's. Runs no code."""
        try:
            tensors = load(state)
            self._steps_done = int(tensors.pop("steps"))
            network = {name.removeprefix(_NETWORK): t for name, t in tensors.items() if name.startswith(_NETWORK)}
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

    def _snapshot(self) -> tuple[Any, ...]:
        """Where it stands, on its device, to be put back to: quicker than a dump."""
        network = {name: value.clone() for name, value in self._network.state_dict().items()}
        return network, _copied(self._optimizer.state), self._steps_done

    def _put_back(self, snapshot: tuple[Any, ...]) -> None:
        network, moments, self._steps_done = snapshot
        self._network.load_state_dict(network)
        self._optimizer.state.clear()
        self._optimizer.state.update(_copied(moments))

    def labels_of(self, X: Tensor) -> HardLabels:
        """The class of each example ``(n, ...)`` that is on the device. Raises TrainingError where an answer is NaN."""
        return np.asarray(self._logits(X).argmax(dim=1).cpu().numpy().astype(LABEL_DTYPE))

    @torch.inference_mode()
    def _logits(self, X: Tensor) -> Tensor:
        network = self._network.eval()
        parts = self._split(X)
        with self.precision(parts[0]), said_in_one_sentence(self._lower_for_memory):
            logits = torch.cat([network(as_floats(part)) for part in parts])
        # The largest of them is a class as well, where some are NaN.
        if torch.isnan(logits).any():
            raise TrainingError(
                f"{type(network).__name__} answered NaN: lower the learning rate, or look for bad values"
            )
        return logits

    def precision(self, X: Tensor) -> torch.autocast:
        """bfloat16 on CUDA, where examples ``(n, ...)`` like these take enough operations for it to pay."""
        if self._pays is None and self._device.type == "cuda" and len(X):
            some = as_floats(X[:_COUNTED])
            with torch.no_grad(), FlopCounterMode(display=False) as counter:
                self._network.eval()(some)
            self._pays = counter.get_total_flops() >= _PAYS * len(some)
        return torch.autocast(self._device.type, torch.bfloat16, enabled=bool(self._pays), cache_enabled=False)

    def _split(self, X: Tensor) -> Sequence[Tensor]:
        """Examples in batches that the network takes at a time."""
        return torch.split(X, getattr(self._network, "most_at_once", _PREDICT_BATCH))

    @property
    def _lower_for_memory(self) -> str:
        """Which settings to lower where memory runs out."""
        return str(getattr(self._network, "lower_for_memory", "batch-size"))

    @property
    def _trained(self) -> list[Tensor]:
        return [weight for weight in self._network.parameters() if weight.requires_grad]

    def make_optimizer(self, weights: list[Tensor]) -> torch.optim.Optimizer:
        """A new optimizer of these weights."""
        return torch.optim.Adam(
            weights, lr=self._learning_rate, weight_decay=self._weight_decay, fused=self._device.type in ("cpu", "cuda")
        )

    def _tensor(self, X: Features) -> Tensor:
        if self._transformer is not None:
            X = apply(self._transformer, X)
        if are_bytes(X):
            return over(np.ascontiguousarray(X)).to(self._device)
        return over(np.ascontiguousarray(X, dtype=np.float32)).to(self._device)

    def _on_device(self, X: Features) -> Tensor:
        for known in self._resident:
            if known.array is X:
                return known.tensor
        key = (id(X), self._device, id(self._transformer), type(self))
        if (found := _THERE.get(key)) is None:
            found = _THERE[key] = _OnDevice(X, self._transformer, self._tensor(X))
        self._resident = [*self._resident[-1:], found]
        return found.tensor


def _copied(states: Mapping[Tensor, Mapping[str, Any]]) -> dict[Tensor, dict[str, Any]]:
    """An optimizer's state of each weight."""
    return {
        weight: {name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()}
        for weight, state in states.items()
    }


@dataclass(eq=False)
class _OnDevice:
    """An array on a device, as some transformer makes it."""

    array: Features
    transformer: Any
    tensor: Tensor


_THERE: Final[WeakValueDictionary[Any, _OnDevice]] = WeakValueDictionary()
"""All that are: the public set is there once for all silos of a process."""


def over(array: NDArray[Any]) -> Tensor:
    """A tensor over the memory of an array, which is never written to; of a read-only one PyTorch wants a copy."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def as_floats(batch: Tensor) -> Tensor:
    """A batch as networks take it: bytes of images become 0..1."""
    return batch.float() / _BRIGHTEST if batch.dtype is torch.uint8 else batch


class _Decided(nn.Module):
    """A network that returns the class and the probabilities instead of its logits."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._network = network

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = self._network(X).softmax(dim=1)
        return probabilities.argmax(dim=1), probabilities


@contextmanager
def without_denormals() -> Iterator[None]:
    """Take numbers below 1e-38 for 0, in this thread: a CPU is many times slower with them.

    Adam's moments of a weight without a gradient decay into them, as do those of neurons that are never active: after
    1,000 steps on FashionMNIST a step took 1.6 times as long.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


_DRAWING: Final = threading.RLock()


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Set torch's global generator and put it back, both while no other thread creates a network from it.

    On CUDA one thread at a time is in here: while one captures a graph, no other can draw from that generator.
    """
    with _DRAWING if device.type == "cuda" else nullcontext(), ExitStack() as before:
        with MAKING:
            before.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
            torch.manual_seed(seed)
        try:
            yield
        finally:
            with MAKING:
                before.close()


METADATA: Final = "fedct"
"""Under which key of the file's metadata the description is."""
_NETWORK: Final = "network."
_PREPROCESSING: Final = "preprocessing"


def described(network: Averageable | bytes, preprocessing: bytes | None, description: str) -> bytes:
    """The file's content: tensors as ``TorchLearner.dump`` names them, a transformer in skops format, a description.

    Of what such a dump wrote the optimizer's tensors stay, so training can go on from the file.
    """
    tensors: dict[str, NDArray[Any]]
    if isinstance(network, bytes):
        tensors = load_arrays(network)
    else:
        tensors = {_NETWORK + name: value for name, value in network.weights().items()}
        tensors["steps"] = np.array(0, dtype=np.int64)
    if preprocessing is not None:
        tensors[_PREPROCESSING] = np.frombuffer(preprocessing, dtype=np.uint8)
    content: bytes = save_arrays(tensors, metadata={METADATA: description})
    return content


def preprocessing_in(content: bytes) -> bytes | None:
    """The transformer in skops format, None if there is none. Raises what safetensors does for a damaged file."""
    found = load_arrays(content).get(_PREPROCESSING)
    return None if found is None else found.tobytes()
