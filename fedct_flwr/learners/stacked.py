"""Networks of one architecture train as one: stacked weights, a batch of each silo, one step for all of them.

Between two messages silos are independent, so this computes what one after the other does, but for rounding: a silo's
batches, dropout and augmentation are drawn by generators of its own. Ensembles by ``torch.func`` (``functional_call``
and ``vmap``). FedJAX (Ro, Suresh, Wu, arXiv:2108.02117) trains clients one after the other, or one on each device.

On CUDA the step is a graph (``networks.Steps``), and public examples are labeled as one, too.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakSet

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call, vmap

from fedct_flwr.learners.networks import Course, Labeling, Steps, augmented, blocks, correct
from fedct_flwr.learners.trained_network import as_floats, is_of_memory, without_denormals
from fedct_flwr.text.printable import logger
from fedct_flwr.types import LABEL_DTYPE

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
_LABELED: Final = 1 << 14
"""Examples of all networks that are labeled at a time."""
_DROPOUT: Final = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_NEAR: Final = 1e-3
"""By how much a stack's logits may differ from those of its networks."""


class Stacks:
    """Trains networks, those that can be as one: ``at_once`` at most, or with 0 as many as pay and as have room."""

    def __init__(self, at_once: int = 0) -> None:
        self._at_once = at_once
        self._stacks: dict[tuple[Any, ...], Stack] = {}
        self._checked: WeakSet[Any] = WeakSet()
        self._unable: set[str] = set()
        self._said: set[str] = set()

    def train(self, requests: Sequence[Course | Labeling]) -> list[Exception | None]:
        """Take all courses and answer all labelings; returns each one's error.

        Different forms are done one after the other.
        """
        alike: dict[Any, list[Course]] = {}
        # Threads come in any order, and stacks of the round before are of networks in one order.
        in_order = sorted(requests, key=lambda request: id(request.learner))
        for course in (request for request in in_order if isinstance(request, Course)):
            alike.setdefault((_form(course), _standing(course)), []).append(course)
        if len({form[:2] for form, _ in alike}) > 1:
            self._say("Silos' networks differ: those of each architecture train by themselves")
        self._label([request for request in in_order if isinstance(request, Labeling)])
        failed: dict[Any, Exception] = {}
        known, self._stacks = self._stacks, {} if alike else self._stacks
        for group in alike.values():
            together = tuple(course.learner for course in group) in known
            most = self._at_once or (len(group) if together else _fitting(group[0]))
            if len(group) > most == 1 != self._at_once:
                self._say("Silos' networks train one after the other, which is faster on a CPU for networks like these")
            for first in range(0, len(group), most):
                failed |= self._taken(group[first : first + most], known)
        return [failed.get(request) for request in requests]

    def _say(self, sentence: str) -> None:
        """Once in a run."""
        if sentence not in self._said:
            self._said.add(sentence)
            logger.info(sentence)

    def _taken(self, courses: Sequence[Course], known: dict[Any, "Stack"]) -> dict[Any, Exception]:
        name = repr(courses[0].network)
        if len(courses) > 1 and name not in self._unable:
            try:
                self._as_one(courses, known)
                return {}
            except Exception as error:  # whatever a network raises that was not written for this
                self._unable.add(name)
                why = "the memory is too small: set silos-at-once to fewer" if is_of_memory(error) else str(error)
                logger.warning(
                    "%s cannot be stacked, so silos' networks train one after the other (%s)",
                    type(courses[0].network).__name__, why.partition("\n")[0],
                )  # fmt: skip
        failed: dict[Any, Exception] = {}
        for course in courses:
            try:
                course.take()
            except Exception as error:  # it is this silo's alone
                failed[course] = error
        return failed

    def _label(self, labelings: Sequence[Labeling]) -> None:
        """Label what networks of one stack are asked about as one; others label for themselves."""
        stack = self._stacks.get(tuple(labeling.learner for labeling in labelings))
        if stack and all(labeling.same(labelings[0]) for labeling in labelings):
            try:
                stack.label(labelings)
            except RuntimeError as error:
                if not is_of_memory(error):
                    raise

    def _as_one(self, courses: Sequence[Course], known: dict[Any, "Stack"]) -> None:
        learners = tuple(course.learner for course in courses)
        stack = known.pop(learners, None)
        if stack is None or stack.form != _form(courses[0]):
            stack = None  # its memory is wanted
            stack = Stack(courses)
            if not all(learner in self._checked for learner in learners):
                stack.check(courses)
                self._checked.update(learners)
        stack.train(courses)
        self._stacks[learners] = stack


def _form(course: Course) -> Any:
    """Form of a network and its course: equal forms can be stacked."""
    named = (*course.network.named_parameters(), *course.network.named_buffers())
    weights = tuple((name, value.shape, value.requires_grad) for name, value in named)
    parts = tuple((X.shape[1:], X.dtype, y.shape[1:], rows.shape) for X, y, rows in course.parts)
    weighed = (course.weights is None, course.of_class is None, course.correction.pull, bool(course.correction.shift))
    return repr(course.network), weights, parts, course.training, course.augment, weighed, course.parts[0][0].device


def _standing(course: Course) -> tuple[int, float]:
    """How far a network has come, by its course and by its optimizer."""
    state: dict[str, Any] = next(iter(course.optimizer.state.values()), {})
    return course.begun, float(state.get("step", 0))


def _fitting(course: Course) -> int:
    """How many such networks to train at once."""
    weights, own = list(course.network.parameters()), course.parts[0][0]
    size = sum(weight.numel() for weight in weights)
    if own.device.type == "cuda":
        free = torch.cuda.mem_get_info(own.device)[0]
        return max(1, int(_SHARE * free / (_COPIES * size * weights[0].element_size() + own.nbytes)))
    plain = all(weight.ndim <= 2 for weight in weights) and size <= _SMALL
    return _MOST_ON_CPU if plain else 1


class Stack:
    """Several networks as one, for courses of one ``form``; their own weights change at the end of ``train`` alone."""

    def __init__(self, courses: Sequence[Course]) -> None:
        first = courses[0]
        self.form, self._augment, self._pull = _form(first), first.augment, first.correction.pull
        self._device = first.parts[0][0].device
        self._precision = first.precision
        self._generators = [Generator(self._device) for _ in courses]
        self._network = _drawing(copy.deepcopy(first.network), self._generators)
        self._weights = {
            name: _stacked([course.network.get_parameter(name).detach() for course in courses])
            .requires_grad_(weight.requires_grad)
            for name, weight in first.network.named_parameters()
        }  # fmt: skip
        self._buffers = {
            name: torch.stack([course.network.get_buffer(name) for course in courses])
            for name, _ in first.network.named_buffers()
        }
        self._optimizer = first.learner.make_optimizer([w for w in self._weights.values() if w.requires_grad])
        self._of_place = None if first.weights is None else _stacked([course.weights for course in courses])
        self._of_class = None if first.of_class is None else _stacked([course.of_class for course in courses])
        self._shift = {name: torch.zeros_like(self._weights[name]) for name in first.correction.shift}
        self._begun = {name: torch.zeros_like(weight) for name, weight in self._weights.items() if self._pull}
        self._worst = torch.zeros(len(courses), device=self._device)
        self._steps = Steps(self._step, self._optimizer, self._generators)

    @torch.no_grad()
    def check(self, courses: Sequence[Course]) -> None:
        """Raise ValueError unless each network predicts in the stack what it does by itself."""
        X = torch.stack([as_floats(course.some[:2]) for course in courses])
        self._network.eval()
        own = torch.stack([course.network.eval()(part) for course, part in zip(courses, X, strict=True)])
        if not torch.allclose(self._logits(X), own, rtol=_NEAR, atol=_NEAR, equal_nan=True):
            raise ValueError("silos' networks differ in more than their weights")

    @without_denormals()
    def train(self, courses: Sequence[Course]) -> None:
        """Take all steps, and give each network its weights and its optimizer's state."""
        networks = [course.network for course in courses]
        with torch.no_grad():
            self._load(networks)
            self._prepare(courses)
        self._network.train()
        batches = (batch for block in blocks(courses, _BLOCK) for batch in zip(*block, strict=True))
        self._steps.take(batches, courses[0].rate)
        with torch.no_grad():
            for whole, parts in self._tensors(networks):
                torch._foreach_copy_(parts, list(whole.unbind()))
            for own, states in self._states(courses):
                for key, value in own.items():
                    for number, state in enumerate(states):
                        if isinstance(value, Tensor):
                            state[key] = (value[number] if value.ndim else value).clone()
        for course, worst in zip(courses, self._worst.tolist(), strict=True):
            course.worst = worst

    @torch.no_grad()
    def label(self, labelings: Sequence[Labeling]) -> None:
        """Label the examples that all networks are asked about, but for a network that answers NaN."""
        self._load([labeling.learner.network for labeling in labelings])
        self._network.eval()
        silos, X = len(labelings), labelings[0].examples
        with self._precision:
            parts = [
                self._logits(as_floats(part).expand(silos, *part.shape))
                for part in torch.split(X, -(-_LABELED // silos))
            ]
        logits = torch.cat(parts, dim=1)
        unknown = logits.isnan().flatten(1).any(dim=1).tolist()
        labels = logits.argmax(dim=2).cpu().numpy().astype(LABEL_DTYPE)
        for labeling, own, lost in zip(labelings, labels, unknown, strict=True):
            labeling.labels = None if lost else own

    def _tensors(self, networks: Sequence[nn.Module]) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """Each stacked tensor, and the networks' own ones."""
        for name, weight in self._weights.items():
            yield weight, [network.get_parameter(name) for network in networks]
        for name, buffer in self._buffers.items():
            yield buffer, [network.get_buffer(name) for network in networks]

    def _states(self, courses: Sequence[Course]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """The optimizer's state of each weight that is trained, and the networks' own ones."""
        for name, weight in self._weights.items():
            if weight.requires_grad:
                own = [course.optimizer.state[course.network.get_parameter(name)] for course in courses]
                yield self._optimizer.state[weight], own

    def _load(self, networks: Sequence[nn.Module]) -> None:
        for whole, parts in self._tensors(networks):
            torch._foreach_copy_(list(whole.unbind()), parts)

    def _prepare(self, courses: Sequence[Course]) -> None:
        """All that is special about these courses, in the places that steps read."""
        for generator, course in zip(self._generators, courses, strict=True):
            generator.manual_seed(course.seed)
        for own, states in self._states(courses):
            for key, value in states[0].items():
                if isinstance(value, Tensor):
                    found = _stacked([state[key] for state in states])
                    own[key] = own[key].copy_(found) if key in own else found
        if self._of_place is not None:
            self._of_place.copy_(_stacked([course.weights for course in courses]))
        if self._of_class is not None:
            self._of_class.copy_(_stacked([course.of_class for course in courses]))
        for name, shift in self._shift.items():
            shift.copy_(_stacked([torch.as_tensor(course.correction.shift[name]) for course in courses]))
        for name, begun in self._begun.items():
            begun.copy_(self._weights[name])
        self._worst.zero_()

    def _logits(self, X: Tensor) -> Tensor:
        def of_one(weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], batch: Tensor) -> Any:
            return functional_call(self._network, {**weights, **buffers}, (batch,))

        logits: Tensor = vmap(of_one, randomness="error")(self._weights, self._buffers, X)
        return logits

    @torch.enable_grad()
    def _step(self, X: Tensor, y: Tensor) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        X = as_floats(X)
        if kinds := self._augment:
            drawn = zip(X, self._generators, strict=True)
            X = torch.stack([augmented(batch, kinds, generator) for batch, generator in drawn])
        with self._precision:
            logits = self._logits(X)
        losses = nn.functional.cross_entropy(logits.float().flatten(0, 1), y.flatten(0, 1), reduction="none")
        losses = losses.view(X.shape[:2])
        if self._of_class is not None:
            losses = losses * self._of_class.gather(1, y)
        loss = losses.mean(dim=1) if self._of_place is None else (losses * self._of_place).sum(dim=1)
        loss.sum().backward()  # type: ignore[no-untyped-call]
        correct(self._weights, self._begun, self._pull, self._shift)
        self._optimizer.step()
        torch.maximum(self._worst, loss.detach(), out=self._worst)


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
