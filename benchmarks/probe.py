"""What a run needs beside training: peak memory, and the time in the vote, the codec and the messages."""

import importlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import psutil

_SAMPLE_SECONDS: Final = 0.05

FEDERATION: Final = (
    "fedct_flwr.consensus.counting.tally",
    "fedct_flwr.algorithms.fedct.plurality",
    "fedct_flwr.coordinator.cotraining.encode_instruction",
    "fedct_flwr.coordinator.cotraining.to_record",
    "fedct_flwr.coordinator.questions.from_record",
    "fedct_flwr.coordinator.questions.decode_reply",
    "client_app.main.from_record",
    "fedct_flwr.silo.round.decode_instruction",
    "fedct_flwr.silo.round.encode_reply",
    "client_app.main.to_record",
    "fedct_flwr.flower.loopback.message_to_proto",
    "fedct_flwr.flower.loopback.message_from_proto",
)
"""The vote, the codec and message building, where they are called."""


class PeakMemory:
    """While entered, samples this process's resident memory; ``gigabytes`` is the most that was seen."""

    gigabytes = 0.0

    def __enter__(self) -> "PeakMemory":
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        process = psutil.Process()
        while True:
            self.gigabytes = max(self.gigabytes, process.memory_info().rss / 2**30)
            if self._over.wait(_SAMPLE_SECONDS):
                return


class Stopwatch:
    """Adds up, over all threads, the seconds spent in functions; one that calls another is counted once."""

    seconds = 0.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = threading.local()

    @contextmanager
    def on(self, names: tuple[str, ...]) -> Iterator["Stopwatch"]:
        """Time the functions that these dotted names lead to."""
        with ExitStack() as stack:
            for name in names:
                module, _, attribute = name.rpartition(".")
                function = getattr(importlib.import_module(module), attribute)
                stack.enter_context(patch(name, self._timed(function)))
            yield self

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "function", False):
                return function(*args, **kwargs)
            self._inside.function, start = True, time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._inside.function = False
                with self._lock:
                    self.seconds += time.perf_counter() - start

        return timed
