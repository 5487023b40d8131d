"""Networks of one architecture train as one: stacked weights, a batch of each silo, one step for all of them.

Between two messages silos are independent, so this computes what one after the other does, but for rounding: a silo's
batches, dropout and augmentation are drawn by generators of its own. Ensembles by ``torch.func`` (``functional_call``
and ``vmap``), as FedJAX trains clients (Ro, Suresh, Wu, arXiv:2108.02117).

On CUDA the step is captured as a CUDA graph and replayed, unless it draws. That part is written by the manual and
unmeasured: no GPU was there.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakSet

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call, vmap

from fedct_flwr.learners.networks import augmented
from fedct_flwr.learners.torch_net import Course, TorchLearner
from fedct_flwr.learners.trained_network import as_floats, is_of_memory, without_denormals
from fedct_flwr.text.log import logger

_MOST_ON_CPU: Final = 32
"""Networks at once: the more, the less of them stays in the cache."""
_SMALL: Final = 1 << 17
"""Weights of a fully connected network that pays to be stacked on a CPU, where larger ones take longer together."""
_COPIES: Final = 8
"""Of the weights: gradient, two moments, what they are made of and written back to; and room for activations."""
_SHARE: Final = 0.8
"""Of the memory that is free."""
_BLOCK: Final = 32 << 20
"""Bytes of batches that are gathered at a time."""
_EAGER: Final = 3
"""Steps before one is captured as a graph, as CUDA asks for."""
_DROPOUT: Final = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_NEAR: Final = 1e-3
"""By how much a stack's logits may differ from those of its networks."""


class Stacks:
    """Trains networks, those that can be as one: ``at_once`` at most, or with 0 as many as pay and as have room."""

    def __init__(self, at_once: int = 0) -> None:
        self._at_once = at_once
        self._checked: WeakSet[TorchLearner] = WeakSet()
        self._unable: set[str] = set()
        self._said: set[str] = set()

    def train(self, courses: Sequence[Course]) -> list[Exception | None]:
        """Take all courses; what went wrong with each. Those that differ are taken one after the other."""
        alike: dict[Any, list[Course]] = {}
        for course in courses:
            alike.setdefault(_form(course), []).append(course)
        if len({form[:2] for form in alike}) > 1:
            self._say("Silos' networks differ: those of each architecture train by themselves")
        failed: dict[Course, Exception] = {}
        for group in alike.values():
            most = self._at_once or _fitting(group[0])
            if len(group) > most == 1 != self._at_once:
                self._say("Silos' networks train one after the other, which is faster on a CPU for networks like these")
            for first in range(0, len(group), most):
                failed |= self._taken(group[first : first + most])
        return [failed.get(course) for course in courses]

    def _say(self, sentence: str) -> None:
        """Once in a run."""
        if sentence not in self._said:
            self._said.add(sentence)
            logger.info(sentence)

    def _taken(self, courses: Sequence[Course]) -> dict[Course, Exception]:
        name = repr(courses[0].network)
        if len(courses) > 1 and name not in self._unable:
            try:
                stack, learners = Stack(courses), [course.learner for course in courses]
                if not all(learner in self._checked for learner in learners):
                    stack.check()
                    self._checked.update(learners)
                stack.train()
                return {}
            except Exception as error:  # whatever a network raises that was not written for this
                if is_of_memory(error):
                    return self._in_halves(courses)
                self._unable.add(name)
                logger.warning(
                    "%s cannot be stacked, so silos' networks train one after the other (%s)",
                    type(courses[0].network).__name__, str(error).partition("\n")[0],
                )  # fmt: skip
        failed = {}
        for course in courses:
            try:
                course.learner.take(course)
            except Exception as error:  # it is this silo's alone
                failed[course] = error
        return failed

    def _in_halves(self, courses: Sequence[Course]) -> dict[Course, Exception]:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self._at_once = half = -(-len(courses) // 2)
        logger.warning(
            "The memory is too small for %s networks at once, so at most %s are: set silos-at-once to %s, or lower "
            "batch-size",
            len(courses), half, half,
        )  # fmt: skip
        return self._taken(courses[:half]) | self._taken(courses[half:])


def _form(course: Course) -> Any:
    """What networks have in common that can be stacked."""
    named = (*course.network.named_parameters(), *course.network.named_buffers())
    weights = tuple((name, value.shape, value.requires_grad) for name, value in named)
    state: dict[str, Any] = next(iter(course.optimizer.state.values()), {})
    parts = tuple((X.shape[1:], X.dtype, y.shape[1:], rows.shape) for X, y, rows in course.batches.parts)
    weighed = (course.weights is None, course.of_class is None, course.correction.pull, bool(course.correction.shift))
    at = (course.training, course.begun, float(state.get("step", 0)))
    return repr(course.network), weights, parts, at, weighed, course.batches.parts[0][0].device


def _fitting(course: Course) -> int:
    """How many such networks to train at once."""
    weights, device = list(course.network.parameters()), course.batches.parts[0][0].device
    size = sum(weight.numel() for weight in weights)
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        return max(1, int(_SHARE * free / (_COPIES * size * weights[0].element_size())))
    plain = all(weight.ndim <= 2 for weight in weights) and size <= _SMALL
    return _MOST_ON_CPU if plain else 1


class Stack:
    """Several networks as one, whose own weights change at the end of ``train`` alone."""

    def __init__(self, courses: Sequence[Course]) -> None:
        first = courses[0]
        self._courses, self._device = courses, first.batches.parts[0][0].device
        self._generators = [Generator(self._device).manual_seed(course.seed) for course in courses]
        self._network = _drawing(copy.deepcopy(first.network), self._generators)
        self._draws = bool(first.training.augment) or any(
            isinstance(part, _Dropout) for part in self._network.modules()
        )
        own = [dict(course.network.named_parameters()) for course in courses]
        self._weights = {
            name: torch.stack([weights[name].detach() for weights in own]).requires_grad_(weight.requires_grad)
            for name, weight in own[0].items()
        }
        buffers = [dict(course.network.named_buffers()) for course in courses]
        self._buffers = {name: torch.stack([each[name] for each in buffers]) for name in buffers[0]}
        self._optimizer = first.learner.make_optimizer([w for w in self._weights.values() if w.requires_grad])
        for weight, states in self._trained():
            stacked = {key: _stacked([state[key] for state in states]) for key, one in states[0].items() if _kept(one)}
            self._optimizer.state[weight] = stacked
        self._of_place = None if first.weights is None else _stacked([course.weights for course in courses])
        self._of_class = None if first.of_class is None else _stacked([course.of_class for course in courses])
        shifts = [course.correction.shift for course in courses]
        self._shift = {
            name: torch.stack([torch.as_tensor(shift[name], device=self._device) for shift in shifts])
            for name in shifts[0]
        }
        pulled = self._weights if first.correction.pull else {}
        self._begun = {name: weight.detach().clone() for name, weight in pulled.items()}
        self._worst = torch.zeros(len(courses), device=self._device)

    @torch.no_grad()
    def check(self) -> None:
        """Raise ValueError unless each network predicts in the stack what it does by itself."""
        X = torch.stack([as_floats(course.batches.of(slice(1))[0][0, :2]) for course in self._courses])
        self._network.eval()
        own = torch.stack([course.network.eval()(part) for course, part in zip(self._courses, X, strict=True)])
        if not torch.allclose(self._logits(self._buffers, X), own, rtol=_NEAR, atol=_NEAR, equal_nan=True):
            raise ValueError("silos' networks differ in more than their weights")

    @without_denormals()
    def train(self) -> None:
        """Take all steps, and give each network its weights and its optimizer's state."""
        self._network.train()
        take: Callable[[Tensor, Tensor], None] = self._step
        with self._own_stream():
            for number, (X, y) in enumerate(self._batches()):
                self._set_rate(number)
                if number == _EAGER and self._device.type == "cuda" and not self._draws:
                    take = self._captured(X, y)
                take(X, y)
        self._give_back()

    @contextmanager
    def _own_stream(self) -> Iterator[None]:
        """On CUDA another stream than the default one, on which nothing can be captured that was warmed up there."""
        if self._device.type != "cuda":
            yield
            return
        before, own = torch.cuda.current_stream(self._device), torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        own.wait_stream(before)
        with torch.cuda.stream(own):
            yield
        before.wait_stream(own)

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The examples of each step, ``(networks, n, ...)``, and their labels."""
        blocks = (course.batches.blocks(_BLOCK // len(self._courses)) for course in self._courses)
        for each in zip(*blocks, strict=True):
            X, y = zip(*each, strict=True)
            yield from zip(torch.stack(X, dim=1), torch.stack(y, dim=1), strict=True)

    def _logits(self, buffers: Mapping[str, Tensor], X: Tensor) -> Tensor:
        def of_one(weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], batch: Tensor) -> Any:
            return functional_call(self._network, {**weights, **buffers}, (batch,))

        logits: Tensor = vmap(of_one, randomness="error")(self._weights, buffers, X)
        return logits

    @torch.enable_grad()
    def _step(self, X: Tensor, y: Tensor) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        X = as_floats(X)
        if kinds := self._courses[0].training.augment:
            drawn = zip(X, self._generators, strict=True)
            X = torch.stack([augmented(batch, kinds, generator) for batch, generator in drawn])
        on_gpu = self._device.type == "cuda"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=on_gpu, cache_enabled=False):
            logits = self._logits(self._buffers, X)
        losses = nn.functional.cross_entropy(logits.float().flatten(0, 1), y.flatten(0, 1), reduction="none")
        losses = losses.view(X.shape[:2])
        if self._of_class is not None:
            losses = losses * self._of_class.gather(1, y)
        loss = losses.mean(dim=1) if self._of_place is None else (losses * self._of_place).sum(dim=1)
        loss.sum().backward()  # type: ignore[no-untyped-call]
        self._correct()
        self._optimizer.step()
        torch.maximum(self._worst, loss.detach(), out=self._worst)

    @torch.no_grad()
    def _correct(self) -> None:
        """Add each silo's terms to its gradients, as ``learners.base.Correction`` has them."""
        for name, weight in self._weights.items():
            if weight.grad is None:
                continue
            if name in self._begun:
                weight.grad.add_(weight - self._begun[name], alpha=self._courses[0].correction.pull)
            if name in self._shift:
                weight.grad.add_(self._shift[name])

    def _set_rate(self, number: int) -> None:
        training, begun = self._courses[0].training, self._courses[0].begun
        if training.decay_steps:
            rate = training.learning_rate * training.share_of_rate(begun + number)
            for group in self._optimizer.param_groups:
                # A graph reads its rate from memory.
                group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate

    def _captured(self, X: Tensor, y: Tensor) -> Callable[[Tensor, Tensor], None]:
        """The step as a CUDA graph, which reads from copies of ``X`` and ``y``."""
        held_X, held_y = X.clone(), y.clone()
        for group in self._optimizer.param_groups:
            group["lr"] = torch.tensor(group["lr"], device=self._device)
            if "capturable" in group:
                group["capturable"] = True
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(held_X, held_y)

        def replay(X: Tensor, y: Tensor) -> None:
            held_X.copy_(X)
            held_y.copy_(y)
            graph.replay()

        return replay

    def _trained(self) -> Iterator[tuple[Tensor, list[dict[str, Any]]]]:
        """Each stacked weight that is trained, and the states that its networks' optimizers have of it."""
        for name, weight in self._weights.items():
            if weight.requires_grad:
                yield weight, [course.optimizer.state[course.network.get_parameter(name)] for course in self._courses]

    @torch.no_grad()
    def _give_back(self) -> None:
        for weight, states in self._trained():
            for key, value in self._optimizer.state[weight].items():
                for number, state in enumerate(states):
                    if _kept(value):
                        state[key] = value[number].clone() if value.ndim else value.clone()
        tensors = {**self._weights, **self._buffers}
        for number, (course, worst) in enumerate(zip(self._courses, self._worst.tolist(), strict=True)):
            own = {**dict(course.network.named_parameters()), **dict(course.network.named_buffers())}
            for name, value in own.items():
                value.copy_(tensors[name][number])
            course.worst = worst


def _kept(value: Any) -> bool:
    return isinstance(value, Tensor)


def _stacked(values: Sequence[Any]) -> Tensor:
    """Stacked; a number of steps, which is the same for all, stays one."""
    return torch.stack(list(values)) if values[0].ndim else values[0].clone()


class _Dropout(nn.Module):
    """Dropout in a stack: each network's by its own generator, in the order in which it would draw alone."""

    def __init__(self, rate: float, generators: Sequence[Generator], channels: bool) -> None:
        super().__init__()
        self._rate, self._generators, self._channels = rate, generators, channels

    def forward(self, X: Tensor) -> Tensor:
        if not self.training or self._rate in (0, 1):
            return X * (1 - self._rate * self.training)
        noise: Tensor = _Noise.apply(X.detach(), 1 - self._rate, self._generators, self._channels)  # type: ignore[no-untyped-call]
        return X * noise


class _Noise(torch.autograd.Function):
    """0 or 1 / kept, of the shape of what it multiplies, or one number for each channel of each example."""

    @staticmethod
    def forward(X: Tensor, kept: float, generators: Sequence[Generator], channels: bool) -> Tensor:
        raise NotImplementedError("for stacked networks alone")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing depends on it."""

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, X: Tensor, kept: float, generators: Sequence[Generator], channels: bool
    ) -> tuple[Tensor, int]:
        each = X.movedim(in_dims[0], 0)
        shape = (*each.shape[1:3], *(1,) * (each.ndim - 3)) if channels else each.shape[1:]
        drawn = [each.new_empty(shape).bernoulli_(kept, generator=generator) for generator in generators]
        return torch.stack(drawn).div_(kept), 0


def _drawing(network: nn.Module, generators: Sequence[Generator]) -> nn.Module:
    """The same network, with dropout that draws by these generators."""
    for name, part in list(network.named_modules(remove_duplicate=False)):
        if type(part) in _DROPOUT:
            network.set_submodule(name, _Dropout(part.p, generators, type(part) is not nn.Dropout))
    return network
