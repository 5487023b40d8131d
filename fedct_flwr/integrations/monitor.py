"""A run for integrations: the files that they may see, and a monitor that follows the rounds."""

import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.text.printable import logger
from fedct_flwr.types import FedctError, RunError

FILES: Final = {
    "config.json": "Settings, versions, silos, and the fingerprint of the public set",
    "rounds.jsonl": "The run's log: a line for each round, with what each silo sent",
    "trust.jsonl": "How much each silo trusts each other one, round by round",
    "labels.csv": "The consensus: the final label of each public example",
    "values.csv": "The consensus: the final value of each public example",
    "scores.json": "Scores of the models, with 95% intervals",
    "verdict.json": "Silos that gained or lost, by an exact test",
    "result.json": "How the run ended",
    "audit.json": "Attacks on the run that were tried, and what they found",
}
"""Files of a run folder that others may see. Table 1 and the report describe records, and are not among them."""


def contents(folder: Path) -> dict[str, bytes]:
    """Contents of the files by name; of a path on this machine settings keep the last part alone.

    Raises OSError, and RunError for a folder that holds no run.
    """
    found = {name: (folder / name).read_bytes() for name in FILES if is_plain(folder / name)}
    facts = RunFolder(folder).read_json("config.json")
    for key, value in facts["settings"].items():
        if isinstance(value, str) and value.startswith(("/", "~")):
            facts["settings"][key] = Path(value).name
    return found | {"config.json": json.dumps(facts, indent=1).encode()}


def is_plain(path: Path) -> bool:
    """Whether it is a file, and no link to one."""
    return path.is_file() and not path.is_symlink()


def metrics_of(record: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float]]:
    """Numbers of a round's record by where they stand in it; what is not known is left out.

    >>> dict(metrics_of({"agreement": 0.5, "silos": {"a": {"scores": {"own_accuracy": 1}, "seconds": None}}}))
    {'agreement': 0.5, 'silos/a/scores/own_accuracy': 1.0}
    """
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from metrics_of(value, f"{path}{name}/")
        elif type(value) in (int, float) and math.isfinite(value):
            yield f"{path}{name}", float(value)


class Tracker(ABC):
    """Shows a run elsewhere; ``name`` is the value of the setting ``tracking``.

    The run folder stays the record: where showing fails in the middle, the log says so once, and the run goes on.
    """

    name: str

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self._works = folder, True

    @abstractmethod
    def begin(self, *, resumed: bool) -> None:
        """Open the run there: a new one, or that of a resumed run."""

    @abstractmethod
    def log(self, number: int, metrics: Mapping[str, float]) -> None:
        """Add numbers of a round. A round that is repeated after a crash comes twice."""

    @abstractmethod
    def end(self, facts: Mapping[str, Any]) -> None:
        """Close the run with the facts of its end: those of ``result.json``, or the status ``stopped``."""

    @contextmanager
    def follow(self, *, resumed: bool) -> Iterator[dict[str, Any]]:
        """Follow the rounds within, which put their facts for ``result.json`` into the dictionary.

        Raises RunError if a new run cannot be opened there; one that is resumed goes on without.
        """
        self.attempt(lambda: self.begin(resumed=resumed), needed=not resumed)
        self.folder.listen(lambda record: self.attempt(lambda: self.log(record["round"], dict(metrics_of(record)))))
        facts: dict[str, Any] = {"status": "stopped"}
        try:
            yield facts
            facts["status"] = "completed"
        except FedctError as error:
            facts |= {"status": "failed", "reason": str(error)}
            raise
        finally:
            self.attempt(lambda: self.end(facts))

    def attempt(self, step: Callable[[], None], *, needed: bool = False) -> None:
        """Take a step unless one has failed before. Where it fails the log says so; RunError for one that is needed."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                step() if self._works else None
        except Exception as error:  # libraries raise many types
            self._works = False
            # The coordinator's own log may say it; no silo is told.
            why = next(iter(str(error).splitlines()), "") or type(error).__name__
            if needed:
                raise RunError(
                    f"tracking = '{self.name}': its store cannot be opened ({why}); fix that, or set tracking to 'none'"
                ) from error
            logger.warning("tracking = '%s': the run goes on without it, as it failed: %s", self.name, why)
