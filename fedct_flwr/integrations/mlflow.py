"""A run in MLflow (extra ``mlflow``): settings, each round's numbers, scores and files. At the coordinator alone.

The store is that of MLFLOW_TRACKING_URI, or else an SQLite database in the run folder, ``mlflow.db``.
"""

import importlib.util
import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from fedct_flwr.files import write_json
from fedct_flwr.integrations.monitor import Tracker, contents, metrics_of
from fedct_flwr.runs.run_folder import versions
from fedct_flwr.runs.scores import FILE, TESTS, SiloScores, means
from fedct_flwr.text.printable import json_text, plain
from fedct_flwr.types import ConfigError

STORE: Final = "MLFLOW_TRACKING_URI"
RUN_FILE: Final = "mlflow.json"
"""File in the run folder with the id of the store's run, which a resumed run continues."""
_STATES: Final = {"completed": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


def check_mlflow() -> None:
    """Raise ConfigError, before anything runs, if the extra is not installed."""
    if importlib.util.find_spec("mlflow") is None:
        needed = "a package that is not installed: pip install -c constraints.txt -e '.[mlflow]'"
        raise ConfigError(f"tracking = 'mlflow' needs {needed}")


class MLflow(Tracker):
    """A run of the experiment that is named after the study."""

    name = "mlflow"

    def begin(self, *, resumed: bool) -> None:
        from mlflow.entities import Param

        client, folder = self._client, self.folder.path
        if resumed and (folder / RUN_FILE).is_file():
            client.update_run(self._run, status="RUNNING")
            return
        settings = json.loads(contents(folder)["config.json"])["settings"]
        study = str(settings["study"])
        found = client.get_experiment_by_name(study)
        # A server knows where files go; the database in the run folder has them next to it.
        files = None if os.environ.get(STORE) else (folder / "mlflow").as_uri()
        experiment = found.experiment_id if found else client.create_experiment(study, artifact_location=files)
        tags = {f"version.{name}": value for name, value in versions().items()}
        run = client.create_run(experiment, run_name=folder.name, tags=tags).info.run_id
        client.log_batch(run, params=[Param(key, str(value)) for key, value in settings.items()])
        write_json(folder / RUN_FILE, {"run_id": run})

    def log(self, number: int, metrics: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        # In MLflow's characters for names.
        named = {re.sub(r"[^\w\-. /]", "_", name)[:250]: value for name, value in metrics.items()}
        self._client.log_batch(self._run, [Metric(name, value, now, number) for name, value in named.items()])

    def end(self, facts: Mapping[str, Any]) -> None:
        files = contents(self.folder.path) | {"result.json": json_text(facts).encode()}
        for name, content in files.items():
            self._client.log_text(self._run, content.decode(), name)
        # The global model with its card: neither silos' models nor their ledgers.
        for path in self.folder.models.glob("global.*"):
            self._client.log_artifact(self._run, str(path), "models")
        self._client.set_terminated(self._run, _STATES[facts["status"]])

    def log_scores(self, rows: Sequence[SiloScores]) -> None:
        """Add the scores of a run that was followed: ``end/SILO/...`` as in ``scores.json``, and ``mean/own/...``."""
        ends = {row.silo: plain(row) for row in rows}
        known = dict(metrics_of({"end": ends, "mean": {test: means(rows, test) for test in TESTS}}))
        if (self.folder.path / RUN_FILE).is_file():
            self.attempt(lambda: self.log(self.folder.rounds()[-1]["round"], known))
            text = contents(self.folder.path)[FILE].decode()
            self.attempt(lambda: self._client.log_text(self._run, text, FILE))

    @property
    def _run(self) -> str:
        return str(self.folder.read_json(RUN_FILE)["run_id"])

    @cached_property
    def _client(self) -> Any:
        # Only the named server gets reports, and one that is away does not hold up the rounds for long.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        # MLflow's own words for the variable would be a folder where the coordinator's process happens to work.
        return MlflowClient(tracking_uri=os.environ.get(STORE) or f"sqlite:///{self.folder.path / 'mlflow.db'}")
