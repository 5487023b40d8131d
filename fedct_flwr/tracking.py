"""A run in MLflow (extra ``mlflow``): settings, each round's numbers, scores and files. At the coordinator alone.

MLflow is for looking at runs; the run folder stays the record. So where it fails in the middle of a run, the log has
one warning, and the run goes on without it.

The store is the one that the coordinator's MLFLOW_TRACKING_URI names. Without that it is an SQLite database in the run
folder, ``mlflow.db``, with files next to it in ``mlflow/``; it needs no server. To look at it: ``mlflow ui
--backend-store-uri sqlite:///RUN/mlflow.db``, with the package ``mlflow``, as ``mlflow-skinny`` has no pages.
"""

import importlib.util
import json
import logging
import math
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from fedct_flwr.files import write_json
from fedct_flwr.runs.run_folder import RunFolder, versions
from fedct_flwr.runs.scores import FILE, SiloScores, means, numbers
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ConfigError, FedctError, RunError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from fedct_flwr.config.run import RunConfig

_T = TypeVar("_T")

STORE: Final = "MLFLOW_TRACKING_URI"
RUN_FILE: Final = "mlflow.json"
"""File in the run folder with the id of the store's run, which a resumed run continues."""

# Only the named server gets reports, and one that is away does not hold up the rounds for long.
_ENVIRONMENT: Final = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
_MOST_PARAMETERS: Final = 100
_MOST_METRICS: Final = 1000
_LONGEST_PARAMETER: Final = 6000
_PARTS: Final = ("config.json", "rounds.jsonl", "trust.jsonl", "labels.csv", "values.csv")


def check_tracking(config: "RunConfig") -> None:
    """Raise ConfigError, before anything runs, if the extra is not installed."""
    if config.tracking == "mlflow" and importlib.util.find_spec("mlflow") is None:
        raise ConfigError(
            "tracking = 'mlflow' needs a package that is not installed: pip install -c constraints.txt -e '.[mlflow]'"
        )


def metrics_of(record: Mapping[str, Any]) -> dict[str, float]:
    """A line of ``rounds.jsonl`` as metrics by name; what is not known is left out.

    ``silos`` counts those that answered, ``absent`` those that did not. Scores that silos report are
    ``own_accuracy/SILO`` and so on, with the silos' mean as ``own_accuracy/mean``; those of a global model are
    ``global/accuracy`` and ``global/balanced_accuracy``.

    >>> metrics_of({"round": 1, "bytes_sent": 9, "silos": {"a": {"scores": {"own_accuracy": 0.5}}}, "absent": {}})
    {'bytes_sent': 9.0, 'silos': 1.0, 'absent': 0.0, 'own_accuracy/a': 0.5, 'own_accuracy/mean': 0.5}
    """
    numbers = {name: value for name, value in record.items() if type(value) in (int, float) and name != "round"}
    found = {name: float(value) for name, value in numbers.items()}
    found |= {"silos": float(len(record["silos"])), "absent": float(len(record["absent"]))}
    scores: dict[str, list[float]] = {}
    for silo, entry in record["silos"].items():
        for name, value in (entry.get("scores") or {}).items():
            found[f"{name}/{silo}"] = float(value)
            scores.setdefault(name, []).append(float(value))
    found |= {f"{name}/mean": fmean(values) for name, values in scores.items()}
    return found | {f"global/{name}": float(value) for name, value in (record.get("scores") or {}).items()}


def score_metrics(rows: Sequence[SiloScores]) -> dict[str, float]:
    """The scores of a run's end as metrics by name; what is not known is left out.

    ``end/own_federated_auc/SILO`` and so on, with the silos' mean as ``end/own_federated_auc/mean``. Intervals,
    confusion matrices and calibration are in ``scores.json``.
    """
    found: dict[str, float] = {}
    for row in rows:
        found |= {f"end/{test}_n/{row.silo}": float(there.n) for test, there in row.tests.items()}
    for one in numbers(rows):
        name = f"end/{one.test}_{one.method}_{one.metric}"
        found[f"{name}/{one.silo}"] = one.value
        if f"{name}/mean" not in found:
            found[f"{name}/mean"] = means(rows, one.test, one.metric)[one.method]
    return {name: value for name, value in found.items() if math.isfinite(value)}


class Tracked:
    """A run that MLflow follows, if its config says so. A context manager around the rounds.

    Left by an exception, the run has failed (FedctError, whose sentence is its reason) or was stopped.

    Raises RunError on entering if the store of a new run cannot be opened. A run that is resumed goes on without.
    """

    def __init__(self, config: "RunConfig", folder: RunFolder, *, resumed: bool) -> None:
        self._config, self._folder, self._resumed = config, folder, resumed
        self._tracked = config.tracking != "none"
        self._facts: Mapping[str, Any] = {}

    def __enter__(self) -> Self:
        if not self._tracked:
            return self
        try:
            _begin(self._config, self._folder, resumed=self._resumed)
        except Exception as error:  # MLflow raises many types
            if not self._resumed:
                raise RunError(
                    f"tracking = 'mlflow': its store cannot be opened ({_one_line(error)}); fix that, or set tracking "
                    "to 'none'"
                ) from error
            self._give_up(error)
        self._folder.listen(self._round)
        return self

    def completed(self, facts: Mapping[str, Any]) -> None:
        """All rounds are done, with these facts for ``result.json``."""
        self._facts = facts

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            facts, state = {"status": "completed", **self._facts}, "FINISHED"
        elif isinstance(error, FedctError):
            facts, state = {"status": "failed", "reason": str(error)}, "FAILED"
        else:
            facts, state = {"status": "stopped"}, "KILLED"
        try:
            if self._tracked:
                _end(self._folder, facts, state)
        except Exception as failure:
            self._give_up(failure)

    def _round(self, record: Mapping[str, Any]) -> None:
        try:
            if self._tracked:
                log_round(self._folder, record["round"], metrics_of(record))
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._tracked = False
        logger.warning("tracking = 'mlflow': the run goes on without it, as it failed: %s", _one_line(error))


def track_scores(config: "RunConfig", folder: RunFolder, rows: Sequence[SiloScores]) -> None:
    """Add the scores of a run that has ended, if MLflow followed it; a warning if that fails."""
    if config.tracking == "none" or not (metrics := score_metrics(rows)) or not (folder.path / RUN_FILE).is_file():
        return
    try:
        log_round(folder, folder.rounds()[-1]["round"], metrics)
        with _client(folder) as client:
            client.log_artifact(_run_id(folder), str(folder.path / FILE))
    except Exception as error:
        logger.warning("tracking = 'mlflow': it lacks the scores, as it failed: %s", _one_line(error))


def log_round(folder: RunFolder, number: int, metrics: Mapping[str, float]) -> None:
    """Log a point of each metric. A round that is repeated after a crash has two, of the same step."""
    with _client(folder) as client:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        points = [Metric(_allowed(name), value, now, number) for name, value in metrics.items()]
        for batch in _batches(points, _MOST_METRICS):
            client.log_batch(_run_id(folder), metrics=batch)


def _begin(config: "RunConfig", folder: RunFolder, *, resumed: bool) -> None:
    """A new run of the experiment that is named after the study, or the one that the run folder names."""
    with _client(folder) as client:
        from mlflow.entities import Param

        if resumed and (folder.path / RUN_FILE).is_file():
            client.update_run(_run_id(folder), status="RUNNING")
            return
        found = client.get_experiment_by_name(config.study)
        # A server knows where files go; the database in the run folder has them next to it.
        files = None if os.environ.get(STORE) else (folder.path / "mlflow").as_uri()
        experiment = found.experiment_id if found else client.create_experiment(config.study, artifact_location=files)
        tags = {f"version.{name}": value for name, value in versions().items()}
        run_id = client.create_run(experiment, run_name=folder.path.name, tags=tags).info.run_id
        parameters = [Param(key, str(value)[:_LONGEST_PARAMETER]) for key, value in config.to_flower().items()]
        for batch in _batches(parameters, _MOST_PARAMETERS):
            client.log_batch(run_id, params=batch)
    write_json(folder.path / RUN_FILE, {"run_id": run_id})


def _end(folder: RunFolder, facts: Mapping[str, Any], state: str) -> None:
    """Copy what tells of the run, and the global model with its card: neither silos' models nor their ledgers."""
    files = [path for name in _PARTS if (path := folder.path / name).is_file()]
    with _client(folder) as client:
        for path in [*files, *sorted(folder.models.glob("global.*"))]:
            below = path.parent.relative_to(folder.path)
            client.log_artifact(_run_id(folder), str(path), str(below) if below.parts else None)
        # The run folder has its own only when all is over.
        client.log_text(_run_id(folder), json.dumps(dict(facts), indent=2) + "\n", "result.json")
        client.set_terminated(_run_id(folder), state)


@contextmanager
def _client(folder: RunFolder) -> "Iterator[MlflowClient]":
    """Client of the store; meanwhile MLflow prints errors alone."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        # MLflow's own words for the variable would be a folder where the coordinator's process happens to work.
        yield MlflowClient(tracking_uri=os.environ.get(STORE) or f"sqlite:///{folder.path / 'mlflow.db'}")


def _run_id(folder: RunFolder) -> str:
    return str(folder.read_json(RUN_FILE)["run_id"])


def _allowed(name: str) -> str:
    """The name of a metric in MLflow's characters.

    >>> _allowed("own_accuracy/Zürich (2)")
    'own_accuracy/Zürich _2_'
    """
    return re.sub(r"[^\w\-. /]", "_", name)[:250]


def _batches(items: Sequence[_T], most: int) -> Iterator[Sequence[_T]]:
    return (items[start : start + most] for start in range(0, len(items), most))


def _one_line(error: Exception) -> str:
    """Its first line. The coordinator's own log may say it; no silo is told."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
