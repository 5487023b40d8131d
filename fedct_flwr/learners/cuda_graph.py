"""Training steps that CUDA replays as a graph: one launch for a step, not one for each of its kernels.

As PyTorch's manual has it ("CUDA semantics", whole-network capture): a few steps as usual, then one is captured, which
reads its batch and its learning rate from fixed places in memory.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import torch
from torch import Generator, Tensor
from torch.optim import Optimizer

from fedct_flwr.learners.catalog import MAKING
from fedct_flwr.text.printable import logger

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
