"""A run in TensorBoard (extra ``tensorboard``): event files in the run folder's ``tensorboard/``.

To look at all runs: ``tensorboard --logdir runs``. They are written by TensorBoard's own writer, which needs neither
TensorFlow nor torch. Its event files hold the name of the coordinator's machine, in their names.
"""

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import struct_pb2
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from fedct_flwr.config import RunConfig
from fedct_flwr.runs.run_folder import RunFolder

FOLDER: Final = "tensorboard"
RESULT: Final = "result"

_STATUS: Final = {
    "completed": api_pb2.STATUS_SUCCESS,
    "failed": api_pb2.STATUS_FAILURE,
    "stopped": api_pb2.STATUS_UNKNOWN,
}


class TensorBoardRun:
    """One run. Each round is on disk when it is over."""

    def __init__(self, writer: EventFileWriter) -> None:
        self._writer = writer

    def round(self, number: int, metrics: Mapping[str, float]) -> None:
        """A point of each metric."""
        points = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._write(number, summary=Summary(value=points))

    def end(self, status: str, facts: Mapping[str, Any], folder: RunFolder) -> None:
        """The result as text, and the end of the session that the table of parameters has."""
        said = "```json\n" + json.dumps(dict(facts), indent=2) + "\n```"
        self._write(0, summary=_text(RESULT, said))
        over = plugin_data_pb2.SessionEndInfo(status=_STATUS[status], end_time_secs=time.time())
        self._write(0, summary=_parameters(metadata.SESSION_END_INFO_TAG, session_end_info=over))
        self._writer.close()

    def begin(self, config: RunConfig, after: int) -> None:
        """The run config as parameters; what an earlier session had after round ``after`` counts no more."""
        if after:
            self._write(after + 1, session_log=SessionLog(status=SessionLog.START))
        info = plugin_data_pb2.SessionStartInfo(start_time_secs=time.time())
        for key, value in config.to_flower().items():
            info.hparams[key].CopyFrom(_value(value))
        self._write(0, summary=_parameters(metadata.SESSION_START_INFO_TAG, session_start_info=info))

    def _write(self, number: int, **what: Any) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=number, **what))
        self._writer.flush()


def open_run(config: RunConfig, folder: RunFolder, resumed: bool) -> TensorBoardRun:
    """A new session of the run. TensorBoard takes all sessions in a folder for one run."""
    run = TensorBoardRun(EventFileWriter(str(folder.path / FOLDER)))
    rounds = folder.rounds() if resumed else []
    run.begin(config, rounds[-1]["round"] if rounds else 0)
    return run


def add_scores(folder: RunFolder, number: int, metrics: Mapping[str, float]) -> None:
    """Add the scores of the end, as points of round ``number``."""
    writer = EventFileWriter(str(folder.path / FOLDER))
    TensorBoardRun(writer).round(number, metrics)
    writer.close()


def _value(value: str | int | float | bool) -> struct_pb2.Value:
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    return struct_pb2.Value(number_value=value)


def _parameters(tag: str, **content: Any) -> Summary:
    data = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(**content))
    return Summary(value=[Summary.Value(tag=tag, metadata=data, tensor=metadata.NULL_TENSOR)])


def _text(tag: str, markdown: str) -> Summary:
    data: SummaryMetadata = create_summary_metadata(display_name=None, description=None)
    tensor = TensorProto(dtype=DT_STRING, string_val=[markdown.encode()])
    return Summary(value=[Summary.Value(tag=tag, metadata=data, tensor=tensor)])
