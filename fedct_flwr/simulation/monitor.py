"""A run's rounds as they end, and why a run that failed has failed: from the run folder, wherever the run goes on."""

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from fedct_flwr.runs.run_folder import RUN_FAILED, RunFolder
from fedct_flwr.types import RunError


class Monitor:
    """Hands each round's record to ``told`` as soon as the run folder has it. To be called again and again."""

    def __init__(self, folder: RunFolder, told: Callable[[Mapping[str, Any]], None]) -> None:
        self._folder, self._told = folder, told
        self._log = folder.round_log()
        self.seen = max((entry["round"] for entry in self._log.records()), default=0)
        """The last round that was told, or had ended before."""
        # A resumed run forgets rounds after its checkpoint, and repeats them.
        with contextlib.suppress(RunError):
            self.seen = min(self.seen, folder.load_checkpoint().round)
        # That of an earlier end, until the coordinator that resumes the run takes it away.
        self._old_end = folder.ended_at()

    @property
    def is_over(self) -> bool:
        """Whether the coordinator has said how the run ended."""
        return self._folder.ended_at() not in (None, self._old_end)

    def __call__(self) -> bool:
        """Tell the rounds that are new; returns whether the run is over."""
        if not self._folder.exists():
            return False
        for entry in self._log.records():
            if entry["round"] > self.seen:
                self.seen = entry["round"]
                self._told(entry)
        return self.is_over


def reason(folder: RunFolder | None, log: str) -> str | None:
    """What the coordinator said last: in the run folder, or in the log if it could not or may not write there."""
    with contextlib.suppress(RunError, KeyError):
        if folder:
            return str(folder.read_json("result.json")["reason"])
    said = re.findall(rf"{RUN_FAILED}: (.+)", log)
    return said[-1] if said else None
