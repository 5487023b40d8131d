"""The most memory that a run takes."""

import threading
from typing import Final

import psutil

_SAMPLE_SECONDS: Final = 0.05


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
