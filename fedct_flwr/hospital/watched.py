"""Files that an agent reads when it starts: those that decide what may leave its silo, and its records."""

import contextlib
from pathlib import Path

from fedct_flwr.config import SiloConfig


class Watched:
    """The files that decide what may leave. Size and time of each are compared, contents are not read.

    Of a folder in the study's folder, such as one of images, it is the folder's own time: it is asked for before each
    decision, and what lies deeper was read once, when the agent started.
    """

    def __init__(self, silo_file: Path, config: SiloConfig) -> None:
        self._silo_file = silo_file
        self._config = config
        self._before, self._records = self._now(), _stamp(config.data.file)

    def unchanged(self) -> bool:
        """Whether all are as they were at the start."""
        return self._now() == self._before

    def records_unchanged(self) -> bool:
        """Whether the silo's records are, which decide nothing of what may leave: they are new each night at some."""
        return _stamp(self._config.data.file) == self._records

    def _now(self) -> tuple[tuple[str, int, int], ...]:
        files = {self._silo_file, self._config.egress_key}
        if self._config.data.test_file:
            files.add(self._config.data.test_file)
        with contextlib.suppress(OSError):
            files.update(self._config.study.iterdir())
        return tuple(_stamp(path) for path in sorted(files))


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        state = path.stat()
    except OSError:
        return str(path), -1, -1
    return str(path), state.st_size, state.st_mtime_ns
