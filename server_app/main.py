"""Run config to algorithm to rounds: the coordinator's ServerApp."""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedct_flwr import coordinator, datasets, evaluation, integrations, silo
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.coordinator.study import Roster, Study, Subject
from fedct_flwr.flower.grid import PollingGrid, PromptGrid
from fedct_flwr.runs import scores
from fedct_flwr.runs.records import failures_noted
from fedct_flwr.runs.run_folder import RUN_FAILED, Checkpoint, RunFolder, default_path
from fedct_flwr.text.console import console
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ConfigError, FedctError, SiloName

if TYPE_CHECKING:
    from fedct_flwr.coordinator.algorithm import Algorithm
    from fedct_flwr.datasets import FederatedDataset
    from fedct_flwr.wire.content import Terms

# Settings that may differ between a run and its continuation: none of them changes a round's result.
_MAY_CHANGE = frozenset(
    {
        "num-server-rounds", "stop-at-fixed-point", "resume", "run-dir", "min-silos", "roster-deadline",
        "round-deadline", "student", "student-params", "tracking", "baselines",
    }
)  # fmt: skip

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one study. Raises FedctError, after its sentence is in the log and in the run folder."""
    try:
        config = RunConfig.from_flower(context.run_config)
        dataset, subject, silos = _subject(config)
        terms = subject.schema.terms(config.study, len(subject.public), subject.public.fingerprint)
        path = Path(config.run_dir) if config.run_dir else default_path(config.study, context.run_id)
        begun = RunFolder(path).settings() if config.resume and RunFolder(path).exists() else None
        algorithm = check_run(config, dataset, subject, silos, begun=begun)
        roster = Roster(config.roster or silos, config.min_silos, config.roster_deadline)
        # Other data are settings: a name, or the digest of tables in memory.
        records = dataset.records_digest if dataset and config.data == "files" else ""
        folder, checkpoint = _open(path, config, terms, subject, roster, records)
    except FedctError as error:
        logger.error("%s: %s", RUN_FAILED, error)
        raise
    with contextlib.closing(folder):
        if dataset and config.public == "drawn" and config.draw_epsilon and not config.resume:
            silo.charge_simulated(config, dataset, folder)
        _run(algorithm, Study(config, dataset, subject, terms, roster, folder, checkpoint), _prompt(grid))


def _prompt(grid: Grid) -> Grid:
    """The same Grid, made to notice replies soon."""
    return grid if isinstance(grid, PromptGrid) else PollingGrid(grid)


def _subject(config: RunConfig) -> tuple["FederatedDataset | None", Subject, Sequence[SiloName]]:
    """The data set of simulated silos, if they are; what the study is about; and who there is."""
    if config.data != STUDY:
        dataset = datasets.load(config)
        silos = [silo.name for silo in dataset.silos]
        return dataset, Subject.simulated(dataset), silos
    config.check_real()
    study = datasets.read_study(Path(config.data_dir))
    if study.name != config.study:
        raise ConfigError(
            f"the run is of study {config.study!r} but {config.data_dir} is the folder of {study.name!r}: set study to "
            "that name, or data-dir to another folder"
        )
    return None, Subject.real(study), config.roster


def _run(algorithm: "Algorithm", study: Study, grid: Grid) -> None:
    with failures_noted(study.folder):
        logger.info("Run folder: %s", study.folder.path)
        with _tracked(study) as told:
            facts = algorithm.run(study, grid)
            if study.config.report_scores and (agreed := study.subject.agreed_scores):
                facts |= coordinator.noisy_scores(study, grid, agreed)
            told |= facts
    study.folder.finish("completed", **facts)
    if study.dataset and not study.config.run_dir:
        # A run of `flwr run`: `fedct simulate` names the folder, and scores what is there.
        _tell_scores(study, study.dataset)


def _tracked(study: Study) -> contextlib.AbstractContextManager[dict[str, Any]]:
    """The monitor of the run, if its config names one."""
    if study.config.tracking == "none":
        return contextlib.nullcontext({})
    return integrations.MLflow(study.folder).follow(resumed=study.checkpoint is not None)


def _tell_scores(study: Study, dataset: "FederatedDataset") -> None:
    rows = evaluation.score(study.config, dataset, study.folder, tell=logger.warning)
    scores.save(rows, study.folder.path / scores.FILE)
    text = io.StringIO()
    console(file=text, width=120).print(evaluation.table(rows, study.config, study.folder))
    for line in text.getvalue().splitlines():
        logger.info("%s", line.rstrip())


def _open(
    path: Path, config: RunConfig, terms: "Terms", subject: Subject, roster: Roster, records: str
) -> tuple[RunFolder, Checkpoint | None]:
    facts = {
        "public_fingerprint": terms.public_fingerprint.hex(),
        "num_public": terms.num_public,
        "classes": terms.classes,
        "silos": roster.silos,
        **({"quantity": terms.quantity} if terms.quantity else {}),
        **({"records": records} if records else {}),
        **({"given": given} if (given := subject.schema.given) else {}),
        **({"follow_up": follow_up._asdict()} if (follow_up := subject.schema.follow_up) else {}),
    }
    if config.resume:
        # The noise was calibrated for the planned rounds, and no labeler can be made for others half way.
        may_change = _MAY_CHANGE if config.protection == "none" else _MAY_CHANGE - {"num-server-rounds"}
        return RunFolder.resume(path, config.to_flower(), facts, may_change)
    return RunFolder.create(path, config.to_flower(), facts), None
