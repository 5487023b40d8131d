"""A run as an object: what its folder says, its models, and its table."""

import csv
import importlib
import io
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

from fedct_flwr import datasets, learners, models, report, survival
from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.datasets.tables import encode
from fedct_flwr.evaluation import scoreboard
from fedct_flwr.evaluation.references import kept_model
from fedct_flwr.learners.catalog import check_from_file
from fedct_flwr.runs import scores
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import TESTS, SiloScores, Test, notes
from fedct_flwr.scoring.assessment import Labels, predict
from fedct_flwr.scoring.intervals import UNKNOWN
from fedct_flwr.scoring.subgroups import subgroups
from fedct_flwr.simulation.silos import as_array, named, table_of
from fedct_flwr.text.console import console
from fedct_flwr.text.printable import printable
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, Features, RunError, SiloName

if TYPE_CHECKING:
    from fedct_flwr.datasets import FederatedDataset
    from fedct_flwr.datasets.schema import Schema
    from fedct_flwr.learners.base import Learner
    from fedct_flwr.scoring.recalibration import Recalibration
    from fedct_flwr.simulation.comparing import Comparison

_WIDTH = 160
_AS_IT_IS = '<pre style="white-space:pre;overflow-x:auto;line-height:normal;font-family:monospace">{code}</pre>'


class RichRepr(ABC):
    """As text, and as HTML in a notebook: the headline and the table, if there is one."""

    def __repr__(self) -> str:
        return printable(self._console().file.getvalue().rstrip(), keep="\n")  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        html = self._console().export_html(inline_styles=True, code_format=_AS_IT_IS)
        return printable(html, keep="\n")

    def _console(self) -> Console:
        # In a notebook rich would show it there at once.
        paper = console(file=io.StringIO(), width=_WIDTH, record=True, color_system=None, force_jupyter=False)
        # As text: brackets in a name are no markup.
        paper.print(Text(self._headline()), soft_wrap=True)
        if table := self._table():
            paper.print(table)
        return paper

    @abstractmethod
    def _headline(self) -> str: ...

    @abstractmethod
    def _table(self) -> Table | None: ...


DataFrame: TypeAlias = Any
"""One of pandas, which nothing else here needs."""
_UNFINISHED: Final = "unfinished"


class SiloModel:
    """A trained learner that reads tables and answers in the study's own names, for scikit-learn's tools an estimator.

    ``learner`` is the learner itself, for features as numbers and classes by their positions in ``schema.classes``.
    ``recalibration`` makes chances of its probabilities; None where they are ranks.
    """

    def __init__(
        self, learner: "Learner", schema: "Schema", label: str = "", recalibration: "Recalibration | None" = None
    ) -> None:
        self.learner, self.schema, self._label, self.recalibration = learner, schema, label, recalibration

    def predict(self, records: Any) -> NDArray[Any]:
        """The class of each record, or its value, ``(n,)``.

        ``records`` are a DataFrame with the columns that the silos have, an array ``(n, features)`` with the same cells
        in the silos' order, or a folder of images, which come by name.
        Raises DataError for columns that do not fit, TrainingError for a model that cannot predict.
        """
        X = self._features(records)
        # Most learners refuse to say anything of nothing.
        return self.schema.outcome.as_written(self.learner.predict(X) if len(X) else np.zeros(0, dtype=LABEL_DTYPE))

    def predict_proba(self, records: Any) -> NDArray[np.float64]:
        """The probability of each of ``schema.classes``, ``(n, classes)``. Raises DataError if the model knows none."""
        X = self._features(records)
        found = models.Recalibrated(self.learner, self.recalibration).probabilities(X, len(self.schema.classes))
        if found is None:
            raise DataError(f"the model, a {type(self.learner).__name__}, knows no probabilities: use predict")
        probabilities: NDArray[np.float64] = found
        return probabilities

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of ``predict_proba``, as ``predict`` writes them."""
        return self.schema.outcome.as_written(np.arange(len(self.schema.classes), dtype=LABEL_DTYPE))

    def score(self, records: Any, outcomes: Any) -> float:
        """The accuracy on records of these classes ``(n,)``, R² on values, or concordance on a pair (times, events)."""
        if self.schema.follow_up:
            if not isinstance(outcomes, tuple | list) or len(outcomes) != 2:
                raise DataError("the outcomes are times of follow-up: give a pair (times, events)")
            time, event = (np.asarray(column) for column in outcomes)
            return survival.concordance(survival.Times(time, event == 1), self.predict(records)).value
        measure = r2_score if self.schema.outcome.number else accuracy_score
        return float(measure(np.asarray(outcomes), self.predict(records)))

    def chances(self, records: Any, horizons: Sequence[float]) -> NDArray[np.float64]:
        """The chance of the event up to each horizon ``(n, horizons)``; DataError for models of other outcomes."""
        if not isinstance(self.learner, learners.SurvivalLearner):
            raise DataError("the model is not of time to an event: use predict_proba")
        return self.learner.risks(self._features(records), tuple(np.atleast_1d(horizons)))

    def fit(self, records: Any, outcomes: Any) -> Self:
        """Raise ConfigError: scikit-learn's tools look for a method of this name, and a run's model is trained."""
        raise ConfigError("a run's model is trained already: simulate() trains another")

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        kind: Literal["classifier", "regressor"] = "regressor" if self.schema.outcome.number else "classifier"
        return Tags(kind, TargetTags(required=True), classifier_tags=ClassifierTags(), regressor_tags=RegressorTags())

    def __repr__(self) -> str:
        trained = getattr(self.learner, "parts", (None, self.learner))[1]
        return f"SiloModel({trained!r})"

    def _features(self, records: Any) -> Features:
        columns, form = self.schema.columns, self.schema.images
        if form and isinstance(records, str | Path):
            return datasets.read_images(datasets.images_in(Path(records)), *form)
        if isinstance(records, np.ndarray) and (not columns or records.shape[1:] == (len(columns),)):
            if records.dtype.kind in "biuf" and not any(column.categories or column.text for column in columns):
                return as_array(records)
            # The positions of categories are no values that a caller knows.
            records = named(records, [column.name for column in columns], "the table of records")
        table = table_of(records, "the table of records")
        outcome = {self._label, self.schema.follow_up.event if self.schema.follow_up else ""}
        if answers := outcome.intersection(table.column_names):
            table = table.drop_columns([*answers])
        return encode(table, columns, "the table of records")


class Run(RichRepr):
    """One run. Its table is what a notebook shows of it.

    It reads from its folder. ``held`` are objects that have to live as long as the run: tables and learners in
    memory, and its folder, if none was named. ``packages`` are those whose learners may be made for ``models``, and
    None where the run is the caller's own.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        dataset: "FederatedDataset | None" = None,
        held: Sequence[object] = (),
        packages: Collection[str] | None = None,
    ) -> None:
        self._folder, self._held, self._packages = folder, held, packages
        self.path: Path = folder.path
        """The run folder."""
        self.config: RunConfig = RunConfig.from_flower({**folder.settings(), "run-dir": str(folder.path.resolve())})
        """The settings."""
        self._dataset = dataset

    @property
    def status(self) -> str:
        """``completed``, ``failed``, or ``unfinished`` while the end is unknown."""
        return str(self._result.get("status", _UNFINISHED))

    @property
    def silos(self) -> tuple[SiloName, ...]:
        """The silos' names."""
        return self._folder.silos

    @property
    def records(self) -> list[dict[str, Any]]:
        """Record of each round, as in ``rounds.jsonl``."""
        return self._folder.rounds()

    @property
    def rounds(self) -> DataFrame:
        """Numbers of each round; those of each silo are in ``records``. Needs pandas."""
        plain = [
            {key: value for key, value in record.items() if not isinstance(value, dict | list)}
            for record in self.records
        ]
        return frame(plain, "round")

    @property
    def scores(self) -> DataFrame:
        """Each silo's balanced accuracy (or R²) on its own and on the pooled test set, and bytes sent. Needs pandas.

        ``local`` is the silo alone, ``federated`` as it ended the run, ``centralized`` with all data in one place.
        Other metrics have columns such as ``own_federated_auc``; ``metrics`` has a line for each, with its interval.
        """
        rows = []
        for row in self.rows:
            scored = {f"{test}_{method}": row.value(test, method) for test in TESTS for method in scores.METHODS}
            counts = {f"{test}_n": found.n for test, found in row.tests.items()}
            metrics = {f"{one.test}_{one.method}_{one.metric}": one.value for one in scores.numbers([row])}
            rows.append({"silo": row.silo, **scored, "bytes_sent": row.bytes_sent, **counts, **metrics})
        return frame(rows, "silo")

    def plot(self) -> Any:
        """Agreement by round, and what each silo gained, as a figure of Matplotlib. Raises ConfigError without it."""
        try:
            pyplot = importlib.import_module("matplotlib.pyplot")
        except ImportError:
            raise ConfigError("a plot needs Matplotlib: pip install matplotlib") from None
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
        pyplot.close(figure)  # a notebook shows it as the value of a cell, and not once more
        left.plot([r["round"] for r in self.records], [r.get("agreement") for r in self.records], marker="o")
        left.set(xlabel="round", ylabel="silos agree with the consensus")
        names = [row.silo for row in self.rows]
        for offset, test in ((-0.2, "pooled"), (0.2, "own")):
            gains = [row.value(test, "federated") - row.value(test, "local") for row in self.rows]
            right.barh([place + offset for place in range(len(names))], gains, 0.4, label=f"{test} test")
        right.set(yticks=range(len(names)), yticklabels=names, xlabel=f"{self.measure}: difference to alone")
        right.axvline(0, color="gray", linewidth=1)
        right.legend()
        return figure

    @property
    def metrics(self) -> DataFrame:
        """All metrics with their 95% intervals: one line for each silo, test set, method and metric. Needs pandas."""
        return frame([one._asdict() for one in scores.numbers(self.rows)], "silo")

    def by_group(self, column: str, test: Test = "pooled") -> DataFrame:
        """Metrics of each silo's model by the values of a feature: a line for each group, with its gap to all others.

        Groups of fewer than ten events are together in ``others``. Needs pandas. Raises like ``models``, and DataError
        for a column that is no feature: ``fedct evaluate --by`` takes any column of a table.
        """
        schema, lines = self.dataset.schema, []
        if schema.follow_up:
            raise DataError(
                "scores by group are of classes and numbers, and this run is of time to an event: use scores"
            )
        labels = Labels(len(schema.classes), schema.positive(self.config.positive_class))
        for silo in self.dataset.silos:
            records = self.dataset.test if test == "pooled" else silo.test
            of = schema.values(column, records.X)
            if (model := self.models.get(silo.name)) is None or not records.size:
                continue
            predicted = predict(models.Recalibrated(model.learner, model.recalibration), records.X, labels)
            for group in subgroups(records, predicted, of, labels).groups:
                counts = {"silo": silo.name, "group": group.group, "n": group.n, "events": group.events}
                for name, found in group.metrics.items():
                    gaps = {f"gap_{key}": value for key, value in asdict(group.gaps.get(name, UNKNOWN)).items()}
                    lines.append({**counts, "metric": name, **asdict(found), **gaps})
        return frame(lines, "silo")

    @property
    def notes(self) -> list[str]:
        """Sentences on scores that are missing, and why, or that mislead, and on secure sums that were refused."""
        return notes(self.rows, self._folder.rounds())

    @property
    def rows(self) -> list[SiloScores]:
        """The same without pandas, with confusion matrices and calibration curves; none for a run without scores."""
        return scores.read(self.path / scores.FILE)

    @property
    def consensus(self) -> NDArray[Any]:
        """The final label of each public example ``(n,)``, None where the silos abstain; or its value, NaN for none.

        Raises RunError for a run that has left none: one that has not ended, or in which silos share weights.
        """
        outcome = self._folder.outcome
        path = self.path / outcome.table
        try:
            with path.open(encoding="utf-8", newline="") as file:
                cells = [row[1] for row in list(csv.reader(file))[1:]]
            return outcome.read(cells)
        except FileNotFoundError:
            raise RunError(f"{self.path} has no {path.name}: the run has left no consensus") from None
        except (OSError, ValueError, LookupError):
            raise RunError(f"{path} is damaged: start a new run") from None

    @cached_property
    def dataset(self) -> "FederatedDataset":
        """The data that the run was about. Raises ConfigError or DataError where they cannot be read any more."""
        return self._dataset or datasets.load(self.config)

    @cached_property
    def models(self) -> Mapping[SiloName, SiloModel]:
        """The model that each silo ended with, where the run has kept it.

        Raises like ``dataset``, and LearnerError for a learner of a package that ``read_run`` was not told to trust.

        A file that cannot be read is left out, with a warning that says why.
        """
        return dict(self._models())

    def report(self, path: Path | str | None = None) -> Path:
        """Write the run as one HTML page, in its folder unless a path is given; returns where it is.

        Raises ConfigError without the extra ``report``, RunError where it cannot be written.
        """
        report.check_extra()
        target = Path(path or self.path / report.NAME)
        report.write_report(report.Run(self.path), target)
        return target

    def compare(self, *others: "Run") -> "Comparison":
        """Rank others and this run by their means over the silos. Raises ConfigError for runs about other data."""
        from fedct_flwr.simulation.comparing import compared, groups_of

        return compared(groups_of([self, *others]))

    def _models(self) -> Iterator[tuple[SiloName, SiloModel]]:
        if self._packages is not None:
            check_from_file(self.config.learner_names, self._packages, self.path)
        judged = scoreboard.judgments(self._folder, self.silos)
        for position, silo in enumerate(self.dataset.silos):
            if kept := kept_model(self.config, self.dataset, position, self._folder):
                how = judged[silo.name].recalibration if silo.name in judged else None
                yield silo.name, SiloModel(kept, self.dataset.schema, self.config.label_column, how)

    @property
    def _result(self) -> dict[str, Any]:
        return self._folder.read_json("result.json") if self._folder.ended_at() is not None else {}

    @property
    def measure(self) -> str:
        """Name of the score."""
        return self._folder.outcome.measure.name

    def _headline(self) -> str:
        how = find_algorithm(self.config)
        return f"{self.config.study}: {how.full_title}, {len(self.records)} rounds, {self.status}, in {self.path}"

    def _table(self) -> Table | None:
        rows = self.rows
        return scoreboard.table(rows, self.config, self._folder) if rows else None


def read_run(path: Path | str, packages: Collection[str] = ()) -> Run:
    """The run in a folder. Raises RunError for a folder that holds none.

    ``packages`` are those whose code may run to read its models, in addition to the short names' packages.
    """
    found = Path(path)
    if not found.is_dir():
        raise RunError(f"there is no run folder {found}: a run prints where its own is")
    return Run(RunFolder(found), packages=packages)


def frame(rows: Sequence[Mapping[str, Any]], index: str) -> DataFrame:
    """Rows as a DataFrame. Raises ConfigError without pandas."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise ConfigError(
            "a DataFrame needs pandas: pip install pandas, or use the run's records and rows, which need none"
        ) from None
    found = pandas.DataFrame(list(rows))
    return found.set_index(index) if len(found) else found


class OwnFolder:
    """A temporary folder that is removed with this object, or when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="fedct-run-"))
        self._end = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def remove(self) -> None:
        """Remove it now."""
        self._end()
