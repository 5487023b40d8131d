"""The table at the end of a run: every silo alone, co-trained, and with all data in one place."""

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final
from warnings import warn

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from fedct_flwr.algorithms.table import Algorithm
from fedct_flwr.baselines.references import centralized, local_only
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.global_model import FACT
from fedct_flwr.datasets import FederatedDataset, SiloData
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.learners.base import Layered, Learner, Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import BALANCED_ACCURACY, Predictor, balanced_accuracy, measure_of
from fedct_flwr.text.printable import json_text
from fedct_flwr.types import DataError, Examples, RunError, SiloName, TrainingError

METHODS = ("local", "federated", "centralized")
_WORDS: Final = {"local": "alone", "federated": "co-trained", "centralized": "all data in one place"}
FILE: Final = "scores.json"
"""Where a run folder has them."""
TRAINING: Final = "training the baselines"
"""What takes a while here."""
_UNKNOWN: Final = dict.fromkeys(METHODS, float("nan"))


@dataclass(frozen=True)
class SiloScores:
    """One silo's row: balanced accuracy (or R²) by method on its own and on the pooled test set, payload bytes sent."""

    silo: str
    own: dict[str, float]
    pooled: dict[str, float]
    bytes_sent: int


def score(
    config: RunConfig,
    algorithm: Algorithm,
    dataset: FederatedDataset,
    folder: RunFolder,
    progress: Callable[[Sequence[SiloData]], Iterable[SiloData]] = iter,
    tell: Callable[[str], None] = warn,
) -> list[SiloScores]:
    """Train the baselines, load the models that silos ended with from the run folder, and score all of them.

    ``progress`` goes through the silos, and may tell how far it is.
    A silo that had no part in the last round has NaN throughout: its model is not the run's, and its learner, which
    may have failed or hung, is not tried again. NaN is also what stands for a model that was not kept, that cannot be
    read or that cannot predict; of the last two ``tell`` is told, a sentence for each.
    """
    rounds = folder.rounds()
    last = rounds[-1]["silos"]
    measure = measure_of(dataset.schema.quantity).of
    rows = []
    for position, silo in enumerate(progress(dataset.silos)):
        models = _models(config, algorithm, dataset, position, folder, tell) if silo.name in last else {}
        own, pooled = (
            {name: _measured(measure, models.get(name), test, f"{silo.name}, {_WORDS[name]}", tell) for name in METHODS}
            for test in (silo.test, dataset.test)
        )
        rows.append(SiloScores(silo.name, own, pooled, _bytes_sent(rounds, silo.name)))
    return rows


def reported(folder: RunFolder, silos: Sequence[SiloName]) -> list[SiloScores]:
    """The scores that real silos put on their last reply; NaN for those that reported none, and for the baselines."""
    rounds = folder.rounds()
    last = rounds[-1]["silos"]
    rows = []
    for silo in silos:
        scores = last.get(silo, {}).get("scores") or {}
        own, pooled = (
            {**_UNKNOWN, "federated": float(scores.get(f"{test}_balanced_accuracy", "nan"))}
            for test in ("own", "pooled")
        )
        rows.append(SiloScores(silo, own, pooled, _bytes_sent(rounds, silo)))
    return rows


def with_baselines(
    rows: Sequence[SiloScores],
    config: RunConfig,
    dataset: FederatedDataset,
    folder: RunFolder,
    progress: Callable[[Sequence[SiloScores]], Iterable[SiloScores]] = iter,
) -> list[SiloScores]:
    """The same rows in the data set's order, with the baselines trained here.

    For a demonstration alone: ``dataset`` holds the very records that the real silos have. As in a simulation, a silo
    that had no part in the last round has no scores at all. ``progress`` goes through the rows, and may tell how far
    it is.
    """
    last = folder.rounds()[-1]["silos"]
    found = []
    for row in progress(sorted(rows, key=lambda row: dataset.position(row.silo))):
        position = dataset.position(row.silo)
        models = _baselines(config, dataset, position) if row.silo in last else {}
        tests = {"own": dataset.silos[position].test, "pooled": dataset.test}
        own, pooled = (
            getattr(row, name) | {method: balanced_accuracy(model, test) for method, model in models.items()}
            for name, test in tests.items()
        )
        found.append(replace(row, own=own, pooled=pooled))
    return found


def _bytes_sent(rounds: Sequence[Mapping[str, Any]], silo: SiloName) -> int:
    return sum(entry["silos"].get(silo, {}).get("bytes_sent", 0) for entry in rounds)


def _models(
    config: RunConfig,
    algorithm: Algorithm,
    dataset: FederatedDataset,
    position: int,
    folder: RunFolder,
    tell: Callable[[str], None],
) -> dict[str, Predictor]:
    models = _baselines(config, dataset, position)
    if kept := readable_model(config, algorithm, dataset, position, folder, tell):
        models["federated"] = kept
    return models


def _measured(
    measure: Callable[[Predictor, Examples], float],
    model: Predictor | None,
    test: Examples,
    which: str,
    tell: Callable[[str], None],
) -> float:
    """The score of a model, NaN where there is none or where it cannot predict."""
    try:
        return float("nan") if model is None else measure(model, test)
    except TrainingError as error:
        tell(f"a model has no score ({which}): {error}")
        return float("nan")


def readable_model(
    config: RunConfig,
    algorithm: Algorithm,
    dataset: FederatedDataset,
    position: int,
    folder: RunFolder,
    tell: Callable[[str], None] = warn,
) -> Learner | None:
    """What ``kept_model`` gives; None for a file that cannot be read, of which ``tell`` is told. Raises ConfigError."""
    try:
        return kept_model(config, algorithm, dataset, position, folder)
    except DataError as error:
        tell(f"the model of silo {dataset.silos[position].name!r} cannot be read, and is left out: {error}")
        return None


def kept_model(
    config: RunConfig, algorithm: Algorithm, dataset: FederatedDataset, position: int, folder: RunFolder
) -> Learner | None:
    """The model that the silo at ``position`` ended with, None where none was kept. Raises DataError, ConfigError."""
    silo = dataset.silos[position]
    learner = build_learner(config, dataset, position, silo.private.X)
    if isinstance(learner, Saveable) and (path := algorithm.model_path(folder, silo.name, learner.suffix)).exists():
        # What silos' networks were made into may be wider than each of them.
        return learner.load_any_width(path) if isinstance(learner, Layered) else learner.load(path)
    return None


def _baselines(config: RunConfig, dataset: FederatedDataset, position: int) -> dict[str, Predictor]:
    models: dict[str, Predictor] = {}
    for name, train in {"local": local_only, "centralized": centralized}.items():
        # A learner that manages with pseudo-labels may fail without; what it says may quote data.
        with contextlib.suppress(TrainingError):
            models[name] = train(config, dataset, position)
    return models


def save(rows: list[SiloScores], path: Path) -> None:
    """Write the scores as JSON, null where there is none."""
    write_atomically(path, json_text(rows).encode())


def read(path: Path) -> list[SiloScores]:
    """What ``save`` wrote, NaN where there is none; no rows without the file. Raises RunError for a damaged one."""
    try:
        rows = json.loads(path.read_text("utf-8"))
        return [
            SiloScores(str(row["silo"]), _numbers(row["own"]), _numbers(row["pooled"]), int(row["bytes_sent"]))
            for row in rows
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RunError(f"{path} is damaged: take it away, and the run goes without scores") from None


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    found = {method: scores.get(method) for method in METHODS}
    return {method: float("nan") if value is None else float(value) for method, value in found.items()}


def of_global_models(folder: RunFolder) -> dict[str, float]:
    """Balanced accuracy on the pooled test set: of the student, and of the vote of the silos' models, where known."""
    scores = folder.read_json("result.json").get(FACT, {}).get("scores", {})
    return {name: float(values["balanced_accuracy"]) for name, values in scores.items()}


def table(
    rows: list[SiloScores],
    title: str,
    methods: Sequence[str] = METHODS,
    global_models: Mapping[str, float] | None = None,
    measure: str = BALANCED_ACCURACY.name,
) -> Table:
    """The rows and their mean as a table of these methods; ``title`` is what the federated one is called.

    ``measure`` is what the scores are. ``global_models`` are those that are no silo's: their scores on the pooled test
    set, by name.
    """
    titles = {"local": "alone", "federated": title, "centralized": "central"}
    sections = [("own test", "own"), ("pooled", "pooled")]
    sections = [(section, name) for section, name in sections if any(_has_scores(getattr(row, name)) for row in rows)]
    result = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    result.add_column(measure.replace(" ", "\n"), no_wrap=True)
    for section, _ in sections:
        for method in methods:
            result.add_column(f"{section}\n{titles[method]}", justify="right", no_wrap=True)
    result.add_column("bytes\nsent", justify="right", no_wrap=True)
    for row in rows:
        cells = [_cell(getattr(row, name), method) for _, name in sections for method in methods]
        result.add_row(escape(row.silo), *cells, f"{row.bytes_sent:,}")
    complete = comparable(rows, methods)
    average = [_cell(means(complete, name, methods), method) for _, name in sections for method in methods]
    over = "mean" if len(complete) == len(rows) else f"mean of {len(complete)}"
    result.add_section()
    result.add_row(over, *average, f"{round(fmean(row.bytes_sent for row in rows)):,}", style="bold")
    if global_models and ("pooled", "pooled") in sections:
        result.add_section()
        for name, value in global_models.items():
            shown = [
                f"{value:.3f}" if (test, method) == ("pooled", "federated") else ""
                for _, test in sections
                for method in methods
            ]
            result.add_row(escape(name), *shown, "")
    return result


def comparable(rows: Sequence[SiloScores], methods: Sequence[str]) -> list[SiloScores]:
    """Rows with a score wherever any row has one: silos are compared by what they have.

    One-shot algorithms leave no model at a silo, and where there is no test set there are no scores.
    """
    cells = [(name, m) for name in ("own", "pooled") for m in methods]
    had = [(name, m) for name, m in cells if any(_is_complete(getattr(row, name), [m]) for row in rows)]
    return [row for row in rows if all(_is_complete(getattr(row, name), [m]) for name, m in had)]


def _has_scores(scores: dict[str, float]) -> bool:
    return not all(np.isnan(value) for value in scores.values())


def _is_complete(scores: dict[str, float], methods: Sequence[str]) -> bool:
    return not any(np.isnan(scores[method]) for method in methods)


def means(complete: Sequence[SiloScores], name: str, methods: Sequence[str]) -> dict[str, float]:
    """Over the silos that have a value for every method: only those can be compared."""
    known = {method: fmean(getattr(row, name)[method] for row in complete) for method in methods if complete}
    return _UNKNOWN | known


def _cell(scores: dict[str, float], method: str) -> str:
    text = f"{scores[method]:.3f}" if not np.isnan(scores[method]) else "-"
    return f"[green]{text}[/]" if method == "federated" and scores["federated"] > scores["local"] else text
