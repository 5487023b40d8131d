"""One simulation: checked before anything runs, run where one likes, and scored. Command and function stand on it."""

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias
from warnings import warn

from fedct_flwr import datasets, drawing, evaluation, flower, integrations, learners, privacy, silo
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets.inspection import Finding, Severity
from fedct_flwr.datasets.inspection.data_set import accepted, inspect_dataset
from fedct_flwr.datasets.inspection.table_one import FILE as TABLE_ONE
from fedct_flwr.datasets.inspection.table_one import Inspection, TableOne
from fedct_flwr.files import unsynced, write_json
from fedct_flwr.learners import Resumable
from fedct_flwr.learners.build import named_learners
from fedct_flwr.learners.catalog import ModelMemory, check_from_file, memory_for, usual_torch
from fedct_flwr.learners.out_of_fold import one_thread
from fedct_flwr.learners.text import misread, unread, unusual_texts
from fedct_flwr.runs import scores
from fedct_flwr.runs.records import errors_of, grouped, reason
from fedct_flwr.runs.run_folder import Monitor, RunFolder, check_new
from fedct_flwr.text.printable import listed
from fedct_flwr.types import RunError

if TYPE_CHECKING:
    from fedct_flwr.coordinator.algorithm import Algorithm
    from fedct_flwr.datasets import FederatedDataset, SiloData
    from fedct_flwr.runs.scores import SiloScores

Engine: TypeAlias = Literal["loopback", "flower"]
"""In this process, or on Flower's simulation engine: the same results, and the engine takes half a minute to start."""

Runner: TypeAlias = Callable[[Mapping[str, Any], int, Path, Callable[[], bool]], None]

LOG: Final = "flower.log"


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulation with which nothing is wrong that could be known before it runs."""

    config: RunConfig
    dataset: "FederatedDataset"
    algorithm: "Algorithm"
    folder: RunFolder
    models: ModelMemory

    @classmethod
    def checked(
        cls,
        settings: Mapping[str, Any],
        path: Path,
        *,
        named: Collection[str] = (),
        begun: Mapping[str, Any] | None = None,
        packages: Collection[str] | None = None,
    ) -> Self:
        """Of these run-config values, in the run folder ``path``, which must be absolute; nothing is written.

        ``named`` and ``begun`` are as in ``checks.check_run``; ``packages`` are those whose learners may be made where
        a file has the settings, and None where they are the caller's. Raises LearnerError, ConfigError, DataError, or
        RunError for a folder that exists although no run is resumed.
        """
        if begun is None:
            check_new(path)
        config = RunConfig.from_flower({**settings, "run-dir": str(path)})
        if packages is not None:
            check_from_file(config.learner_names, packages, path)
        dataset = datasets.load(config)
        silos = [silo.name for silo in dataset.silos]
        algorithm = check_run(config, dataset, Subject.simulated(dataset), silos, named=named, begun=begun)
        folder = RunFolder(path)
        return cls(config, dataset, algorithm, folder, memory_for(folder.models))

    @cached_property
    def findings(self) -> list[Finding]:
        """Suspicious findings on the data, without accepted ones."""
        found = [*self.dataset.findings, *self._inspection.findings]
        return [each for each in found if each.severity is Severity.SAID]

    @property
    def table_one(self) -> TableOne:
        """Table 1 by site; no rows where the tables are not inspected."""
        return self._inspection.table

    @cached_property
    def _inspection(self) -> Inspection:
        if not self.config.inspect:
            return Inspection()
        return inspect_dataset(self.dataset, accepted(self.config), drawn=self.config.public == "drawn")

    def cautions(self) -> Iterator[str]:
        """Settings of the noise that are allowed but probably mistakes, a sentence each."""
        guarantee = self.config.privacy_settings(self.config.asked_about(len(self.dataset.public)))
        if guarantee.enabled and (weakness := privacy.budget_of(guarantee).weakness(self.dataset.fewest_units)):
            yield weakness
        if self.config.public == "drawn" and not self.config.draw_dictionary:
            yield drawing.WITHOUT_DICTIONARY
        yield from self.algorithm.cautions(self.config, len(self.config.roster or self.dataset.silos))

    def notes(self) -> Iterator[str]:
        """Remarks on the data, and on each learner that does not use all columns, a sentence each."""
        yield from self.dataset.notes
        roster = self.config.roster
        if out := [silo.name for silo in self.dataset.silos if roster and silo.name not in roster]:
            yield (
                f"roster leaves out {listed(out)}, but their records count in the pooled test and in the model of all "
                "records: take away these silos to leave the records out"
            )
        config, silos = self.config, len(self.dataset.silos)
        settings = [config.learner_settings(position, silos) for position in range(len(config.learner))]
        if self.algorithm.asks_students():
            # Teachers and students choose nothing.
            settings = [one.of_parts for one in settings]
        settings += [config.student_settings()] if config.student else []
        schema, parts = self.dataset.schema, [self.dataset.public.X, *(silo.private.X for silo in self.dataset.silos)]
        sentences = [
            text
            for one in settings
            for text in (
                unread(one, schema),
                unusual_texts(one, schema, *parts),
                *misread(one, schema, self.dataset.moved),
            )
        ]
        if any(one.by_path for one in settings):
            sentences += [getattr(one, "remark", "") for one in named_learners(config, self.dataset)]
        yield from dict.fromkeys(filter(None, sentences))
        yield from self.algorithm.notes(config, self.dataset)

    def runner(
        self, engine: Engine, variables: Mapping[str, str] = MappingProxyType({}), *, outlives: bool = False
    ) -> Runner:
        """Runner of the simulation, with environment variables for other processes. Raises RunError if none can start.

        ``outlives``: this process goes on where a run in it is interrupted.
        """
        if engine == "loopback":
            networks = any(isinstance(learner, Resumable) for learner in named_learners(self.config, self.dataset))
            train = learners.Stacks(self.config.silos_at_once).train if networks else None
            # Another run here, or this one resumed, begins with learners of its own; and records are not held on to.
            forget = silo.simulated_site.cache_clear
            return partial(flower.run_in_process, train=train, outlives=outlives, then=forget)
        flower.check_ray()
        return partial(flower.run_on_engine, more=variables) if variables else flower.run_on_engine

    def run(self, runner: Runner, monitor: Monitor, *, keep_log: bool = True) -> None:
        """Run it, with the log in its folder at the end. Raises RunError with the reason that the folder gives.

        Without ``keep_log`` the folder is to go if the run fails: the reason then does not say where the log is.
        """
        log = Path(tempfile.mkdtemp(prefix="fedct-log-")) / LOG
        try:
            runner(self.config.to_flower(), len(self.dataset.silos), log, monitor)
            if self.folder.read_json("result.json").get("status") != "completed":
                raise RunError("the run failed")
        except RunError as error:
            output = log.read_text("utf-8", errors="replace")
            why = reason(self.folder if monitor.is_over else None, output) or str(error)
            if raised := grouped(errors_of(self.folder)):
                # Here the log of each silo is at hand.
                why = why.replace("; see the log at the silo", "")
                why = f"{why}. What the silos' learners raised: {'; '.join(raised)}"
            if keep_log:
                why = f"{why} (log: {self._keep(log)})"
            else:
                shutil.rmtree(log.parent, ignore_errors=True)
            raise RunError(why) from None
        except BaseException:
            # Stopped from outside: what was begun is there to be looked at and gone on with.
            if self.folder.exists():
                self._keep(log)
            else:
                shutil.rmtree(log.parent, ignore_errors=True)
            raise
        self._keep(log)

    def score(
        self,
        progress: Callable[[Sequence["SiloData"]], Iterable["SiloData"]] = iter,
        tell: Callable[[str], None] = warn,
    ) -> list["SiloScores"]:
        """Train the baselines, and score them and the silos' models on the test records.

        Writes the scores to the run folder, and sends them to the run's tracker. Calls ``tell`` with a sentence for
        each model that cannot be scored.
        """
        # For small tables BLAS's threads cost more than they bring.
        with one_thread("blas"), unsynced(), usual_torch():
            rows = evaluation.score(self.config, self.dataset, self.folder, progress, tell)
        scores.save(rows, self.folder.path / scores.FILE)
        if self.table_one.rows:
            write_json(self.folder.path / TABLE_ONE, {"rows": self.table_one.document()})
        evaluation.save_gains(evaluation.who_gained(rows, self.folder, self.dataset), self.folder)
        if self.config.tracking == "mlflow":
            integrations.MLflow(self.folder).log_scores(rows)
        return rows

    def _keep(self, log: Path) -> Path:
        """Move the log to the run folder; if there is none, or no room in it, it stays. Returns where it is."""
        kept = self.folder.path / log.name
        try:
            shutil.copy(log, kept)
        except OSError:
            return log
        shutil.rmtree(log.parent)
        return kept
