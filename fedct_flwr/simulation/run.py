"""A run as an object: what its folder says, its models, and its table."""

import csv
import importlib
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from numpy.typing import NDArray
from rich.table import Table

from fedct_flwr import datasets, evaluation, report, simulation
from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.learners.catalog import check_from_file
from fedct_flwr.runs import scores
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import TESTS, SiloScores, Test, notes
from fedct_flwr.simulation.notebook import DataFrame, RichRepr, frame
from fedct_flwr.types import ConfigError, RunError, SiloName

if TYPE_CHECKING:
    from fedct_flwr.datasets import FederatedDataset
    from fedct_flwr.simulation.comparing import Comparison
    from fedct_flwr.simulation.silo_model import SiloModel

_UNFINISHED: Final = "unfinished"


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

        Groups with fewer than ten records of the rarer class are together in ``others``. Needs pandas. Raises like
        ``models``, and DataError for a column that is no feature: ``fedct evaluate --by`` takes any column of a table.
        """
        return frame(simulation.by_group(self.dataset, self.models, column, test, self.config.positive_class), "silo")

    @property
    def notes(self) -> list[str]:
        """Sentences on silos that lost, on scores that are missing or mislead, and on secure sums that were refused."""
        file = self.path / scores.VERDICT
        warned = self._folder.read_json(file.name)["warnings"] if file.is_file() else []
        return [*warned, *notes(self.rows, self._folder.rounds())]

    @property
    def rows(self) -> list[SiloScores]:
        """The same without pandas, with confusion matrices and calibration curves; none for a run without scores."""
        return scores.read(self.path / scores.FILE)

    @property
    def consensus(self) -> NDArray[Any]:
        """The final outcome of each public example ``(n,)``: a class as the tables write it, or a value.

        None, in an array of objects, or NaN stands where nothing was decided. Raises RunError for a run without a
        consensus (it has not ended, or silos share weights), or with a damaged file.
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
    def models(self) -> Mapping[SiloName, "SiloModel"]:
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
        report.write_report(report.RunSummary(self.path), target)
        return target

    def compare(self, *others: "Run") -> "Comparison":
        """Rank others and this run by their means over the silos. Raises ConfigError for runs about other data."""
        return simulation.compared(simulation.groups_of([self, *others]))

    def _models(self) -> Iterator[tuple[SiloName, "SiloModel"]]:
        if self._packages is not None:
            check_from_file(self.config.learner_names, self._packages, self.path)
        judged, took_part = evaluation.judgments(self._folder, self.silos), self.records[-1]["silos"]
        for position, silo in enumerate(self.dataset.silos):
            if silo.name not in took_part:
                continue
            if kept := evaluation.kept_model(self.config, self.dataset, position, self._folder):
                how = judged[silo.name].recalibration if silo.name in judged else None
                learned = self.dataset.public.X, silo.private.X
                model = simulation.SiloModel(kept, self.dataset.schema, self.config.label_column, how, learned)
                yield silo.name, model

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
        return evaluation.table(rows, self.config, self._folder) if rows else None


def read_run(path: Path | str, packages: Collection[str] = ()) -> Run:
    """The run in a folder. Raises RunError for a folder that holds none.

    ``packages`` are those whose code may run to read its models, in addition to the short names' packages.
    """
    found = Path(path)
    if not found.is_dir():
        raise RunError(f"there is no run folder {found}: a run prints where its own is")
    return Run(RunFolder(found), packages=packages)


class OwnFolder:
    """A temporary folder that is removed with this object, or when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="fedct-run-"))
        self._end = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "a run in a temporary folder ends with its process: give run_dir where a run is copied, pickled or made in "
            "another process"
        )

    def remove(self) -> None:
        """Remove it now."""
        self._end()
