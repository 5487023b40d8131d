"""A run in MLflow (extra ``mlflow``): its parameters, a point of each metric for each round, its files.

The store is the one that the coordinator's MLFLOW_TRACKING_URI names. Without that it is an SQLite database in the run
folder, ``mlflow.db``, with files next to it in ``mlflow/``; it needs no server. (Plain files, ``mlruns``, are a store
that MLflow 3 refuses by default.) To look at it: ``mlflow ui --backend-store-uri sqlite:///RUN/mlflow.db``, with the
package ``mlflow``, as ``mlflow-skinny`` has no pages.
"""

import json
import logging
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fedct_flwr.config import RunConfig
from fedct_flwr.files import write_atomically
from fedct_flwr.runs.run_folder import RunFolder, versions
from fedct_flwr.runs.scores import FILE
from fedct_flwr.tracking.base import parts_of

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_T = TypeVar("_T")

STORE: Final = "MLFLOW_TRACKING_URI"
RUN_FILE: Final = "mlflow.json"
"""In the run folder: which run of the store this one is, so that it can be gone on with."""

# Only the named server gets reports, and one that is away does not hold up the rounds for long.
_ENVIRONMENT: Final = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
_MOST_PARAMETERS: Final = 100
_MOST_METRICS: Final = 1000
_LONGEST_PARAMETER: Final = 6000
_STATUS: Final = {"completed": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


class MlflowRun:
    """One run. What MLflow raises is the caller's to deal with."""

    def __init__(self, client: "MlflowClient", run_id: str) -> None:
        self._client = client
        self._run_id = run_id

    def round(self, number: int, metrics: Mapping[str, float]) -> None:
        """Log a point of each metric. A round that is repeated after a crash has two, of the same step."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        points = [Metric(_allowed(name), value, now, number) for name, value in metrics.items()]
        for batch in _batches(points, _MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=batch)

    def add(self, path: Path) -> None:
        """Copy a file of a run."""
        self._client.log_artifact(self._run_id, str(path))

    def end(self, status: str, facts: Mapping[str, Any], folder: RunFolder) -> None:
        """Copy the run's files, and say how it ended."""
        for path in parts_of(folder):
            below = path.parent.relative_to(folder.path)
            self._client.log_artifact(self._run_id, str(path), str(below) if below.parts else None)
        # The run folder has its own only when all is over.
        self._client.log_text(self._run_id, json.dumps(dict(facts), indent=2) + "\n", "result.json")
        self._client.set_terminated(self._run_id, _STATUS[status])


def open_run(config: RunConfig, folder: RunFolder, resumed: bool) -> MlflowRun:
    """A new run of the experiment that is named after the study, or the one that the run folder names."""
    with _client(folder) as client:
        if resumed and (run_id := _known(folder)):
            client.update_run(run_id, status="RUNNING")
            return MlflowRun(client, run_id)
        run_id = _begin(client, config, folder)
    write_atomically(folder.path / RUN_FILE, (json.dumps({"run_id": run_id}) + "\n").encode())
    return MlflowRun(client, run_id)


def add_scores(folder: RunFolder, number: int, metrics: Mapping[str, float]) -> None:
    """Log the scores of the end, after round ``number``, to the run that the run folder names."""
    with _client(folder) as client:
        if run_id := _known(folder):
            run = MlflowRun(client, run_id)
            run.round(number, metrics)
            run.add(folder.path / FILE)


@contextmanager
def _client(folder: RunFolder) -> "Iterator[MlflowClient]":
    """What talks to the store; meanwhile MLflow says nothing that is not wrong."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        # MLflow's own words for the variable would be a folder where the coordinator's process happens to work.
        yield MlflowClient(tracking_uri=os.environ.get(STORE) or f"sqlite:///{folder.path / 'mlflow.db'}")


def _begin(client: "MlflowClient", config: RunConfig, folder: RunFolder) -> str:
    from mlflow.entities import Param

    found = client.get_experiment_by_name(config.study)
    # A server knows where files go; the database in the run folder has them next to it.
    files = None if os.environ.get(STORE) else (folder.path / "mlflow").as_uri()
    experiment = found.experiment_id if found else client.create_experiment(config.study, artifact_location=files)
    tags = {f"version.{name}": value for name, value in versions().items()}
    run_id: str = client.create_run(experiment, run_name=folder.path.name, tags=tags).info.run_id
    parameters = [Param(key, str(value)[:_LONGEST_PARAMETER]) for key, value in config.to_flower().items()]
    for batch in _batches(parameters, _MOST_PARAMETERS):
        client.log_batch(run_id, params=batch)
    return run_id


def _known(folder: RunFolder) -> str | None:
    path: Path = folder.path / RUN_FILE
    return str(json.loads(path.read_text("utf-8"))["run_id"]) if path.is_file() else None


def _allowed(name: str) -> str:
    """What MLflow takes as the name of a metric.

    >>> _allowed("own_accuracy/Zürich (2)")
    'own_accuracy/Zürich _2_'
    """
    return re.sub(r"[^\w\-. /]", "_", name)[:250]


def _batches(items: Sequence[_T], most: int) -> Iterator[Sequence[_T]]:
    return (items[start : start + most] for start in range(0, len(items), most))
