"""A run in TensorBoard (extra ``tensorboard``): event files in the run folder's ``tensorboard/``, of numbers alone.

To look at all runs: ``tensorboard --logdir runs``. They are written by TensorBoard's own writer, which needs neither
TensorFlow nor torch. Its event files hold the name of the coordinator's machine, in their names.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from fedct_flwr.config import RunConfig
from fedct_flwr.runs.run_folder import RunFolder

FOLDER: Final = "tensorboard"


class TensorBoardRun:
    """One run. Each round is on disk when it is over."""

    def __init__(self, folder: RunFolder) -> None:
        self._writer = EventFileWriter(str(folder.path / FOLDER))

    def round(self, number: int, metrics: Mapping[str, float]) -> None:
        """A point of each metric."""
        points = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self.write(number, summary=Summary(value=points))

    def write(self, number: int, **what: Any) -> None:
        """One event of a round."""
        self._writer.add_event(Event(wall_time=time.time(), step=number, **what))
        self._writer.flush()

    def end(self, status: str, facts: Mapping[str, Any], folder: RunFolder) -> None:
        """Close the file: ``result.json`` has the rest."""
        self._writer.close()


def open_run(config: RunConfig, folder: RunFolder, resumed: bool) -> TensorBoardRun:
    """A new session of the run. TensorBoard takes all sessions in a folder for one run."""
    run = TensorBoardRun(folder)
    if resumed and (rounds := folder.rounds()):
        # What an earlier session had after this round counts no more.
        run.write(rounds[-1]["round"] + 1, session_log=SessionLog(status=SessionLog.START))
    return run


def add_scores(folder: RunFolder, number: int, metrics: Mapping[str, float]) -> None:
    """Add the scores of the end, as points of round ``number``."""
    run = TensorBoardRun(folder)
    run.round(number, metrics)
    run.end("completed", {}, folder)
