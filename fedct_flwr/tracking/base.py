"""What a tracker is told: the run config, each round's numbers, and at the end the result and the run's files.

A tracker is for looking at runs; the run folder stays the record. So one that fails in the middle of a run ends
nothing: the log has one warning, and the run goes on without it.
"""

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Any, Final, Protocol, Self

from fedct_flwr.config import RunConfig
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import SiloScores, metric_means
from fedct_flwr.text.log import logger
from fedct_flwr.types import ConfigError, FedctError, RunError

_PACKAGES: Final = {"mlflow": "mlflow", "tensorboard": "tensorboard"}
"""What is imported for each tracker; the extra has the tracker's name."""

_COUNTED: Final = (
    "seconds", "queried", "changed", "abstained", "agreement", "churn", "accuracy_spread", "distance", "moved",
    "instruction_bytes", "bytes_sent",
)  # fmt: skip
_PARTS: Final = ("config.json", "rounds.jsonl", "trust.jsonl", "labels.csv", "values.csv")


class Tracker(Protocol):
    """One run in a tracker's store. Any method may raise whatever it likes."""

    def round(self, number: int, metrics: Mapping[str, float]) -> None:
        """What a round came to; ``number`` is from 1 on."""

    def end(self, status: str, facts: Mapping[str, Any], folder: RunFolder) -> None:
        """The run is over: ``completed``, ``failed`` or ``stopped``; ``facts`` are those of ``result.json``."""


def check_tracking(config: RunConfig) -> None:
    """Raise ConfigError, before anything runs, if the extra of the tracker is not installed."""
    package = _PACKAGES.get(config.tracking)
    if package and importlib.util.find_spec(package) is None:
        raise ConfigError(
            f"tracking = {config.tracking!r} needs a package that is not installed: "
            f"pip install -c constraints.txt -e '.[{config.tracking}]'"
        )


def metrics_of(record: Mapping[str, Any]) -> dict[str, float]:
    """A line of ``rounds.jsonl`` as a tracker's metrics, by name; what is not known is left out.

    ``silos`` counts those that answered, ``absent`` those that did not. Scores that silos report are
    ``own_accuracy/SILO`` and so on, with the silos' mean as ``own_accuracy/mean``; those of a global model are
    ``global/accuracy`` and ``global/balanced_accuracy``.

    >>> metrics_of({"round": 1, "bytes_sent": 9, "silos": {"a": {"scores": {"own_accuracy": 0.5}}}, "absent": {}})
    {'bytes_sent': 9.0, 'silos': 1.0, 'absent': 0.0, 'own_accuracy/a': 0.5, 'own_accuracy/mean': 0.5}
    """
    found = {name: float(record[name]) for name in _COUNTED if record.get(name) is not None}
    found |= {"silos": float(len(record["silos"])), "absent": float(len(record["absent"]))}
    scores: dict[str, list[float]] = {}
    for silo, told in record["silos"].items():
        for name, value in (told.get("scores") or {}).items():
            found[f"{name}/{silo}"] = float(value)
            scores.setdefault(name, []).append(float(value))
    found |= {f"{name}/mean": fmean(values) for name, values in scores.items()}
    return found | {f"global/{name}": float(value) for name, value in (record.get("scores") or {}).items()}


def score_metrics(rows: Sequence[SiloScores]) -> dict[str, float]:
    """The scores of a run's end as a tracker's metrics, by name; what is not known is left out.

    ``end/own_federated_auc/SILO`` and so on, with the silos' mean as ``end/own_federated_auc/mean``. Intervals,
    confusion matrices and calibration are in ``scores.json``.
    """
    found = {
        f"end/{test}_{method}_{name}/{row.silo}": metric.value
        for row in rows
        for test, there in row.tests.items()
        for method, model in there.models.items()
        for name, metric in model.metrics.items()
    }
    names = {
        (test, name)
        for row in rows
        for test, there in row.tests.items()
        for model in there.models.values()
        for name in model.metrics
    }
    for test, name in sorted(names):
        means = metric_means(rows, test, name)
        found |= {f"end/{test}_{method}_{name}/mean": value for method, value in means.items()}
    found |= {f"end/{test}_n/{row.silo}": float(there.n) for row in rows for test, there in row.tests.items()}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def track_scores(config: RunConfig, folder: RunFolder, rows: Sequence[SiloScores]) -> None:
    """Add the scores of a run that has ended to the tracker that followed it, if one did; a warning if it fails."""
    metrics = score_metrics(rows)
    if config.tracking == "none" or not metrics:
        return
    try:
        add = importlib.import_module(f"fedct_flwr.tracking.to_{config.tracking}").add_scores
        add(folder, folder.rounds()[-1]["round"], metrics)
    except Exception as error:  # trackers raise many types
        logger.warning("tracking = %r: it lacks the scores, as it failed: %s", config.tracking, _one_line(error))


def parts_of(folder: RunFolder) -> list[Path]:
    """The files of a run that go to a tracker: what tells of the run, and the global model with its card.

    Not the silos' models, nor their ledgers, of which a simulation has a copy.
    """
    told = [folder.path / name for name in _PARTS]
    return [path for path in told if path.is_file()] + sorted(folder.models.glob("global.*"))


class Tracked:
    """A run that the tracker of its config follows, if it names one. A context manager around the rounds.

    Left by an exception, the run has failed (FedctError, whose sentence is its reason) or was stopped.

    Raises RunError on entering if the store of a new run cannot be opened. A run that is resumed goes on without.
    """

    def __init__(self, config: RunConfig, folder: RunFolder, *, resumed: bool) -> None:
        self._config = config
        self._folder = folder
        self._resumed = resumed
        self._tracker: Tracker | None = None
        self._facts: Mapping[str, Any] = {}

    def __enter__(self) -> Self:
        name = self._config.tracking
        if name == "none":
            return self
        try:
            open_ = importlib.import_module(f"fedct_flwr.tracking.to_{name}").open_run
            self._tracker = open_(self._config, self._folder, self._resumed)
        except Exception as error:  # trackers raise many types
            if self._resumed:
                self._give_up(error)
                return self
            raise RunError(
                f"tracking = {name!r}: its store cannot be opened ({_one_line(error)}); fix that, or set tracking "
                "to 'none'"
            ) from error
        self._folder.listen(lambda record: self._tell(lambda t: t.round(record["round"], metrics_of(record))))
        return self

    def completed(self, facts: Mapping[str, Any]) -> None:
        """All rounds are done, with these facts for ``result.json``."""
        self._facts = facts

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        status = "completed" if error is None else "failed" if isinstance(error, FedctError) else "stopped"
        facts = self._facts if error is None else {"reason": str(error)} if status == "failed" else {}
        self._tell(lambda tracker: tracker.end(status, {"status": status, **facts}, self._folder))

    def _tell(self, what: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            what(self._tracker)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._tracker = None
        logger.warning(
            "tracking = %r: the run goes on without it, as it failed: %s", self._config.tracking, _one_line(error)
        )


def _one_line(error: Exception) -> str:
    """Its first line. The coordinator's own log may say it; no silo is told."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
