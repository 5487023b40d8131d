"""``fedct coordinator count``: how many patients of all silos meet a condition, before a study."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fedct_flwr import drawing, silo
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.algorithms.noisy_counts import CountedPatients
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder, coordinators_study
from fedct_flwr.cli.coordinator.run import follow_run, settings_of
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.run_options import Resume, refuse_options
from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.drawing.patients import PatientCount
from fedct_flwr.labelers.labeler import check_extra
from fedct_flwr.runs.run_folder import RunFolder, dated
from fedct_flwr.text.printable import in_shell, printable
from fedct_flwr.types import ConfigError, RunError


def count(
    context: typer.Context,
    folder: Folder,
    where: Annotated[
        str, typer.Option(help='The condition on the study\'s columns: "age >= 65 and crp > 10".', show_default=False)
    ] = "",
    by: Annotated[str, typer.Option(help="A column for whose categories patients are counted.")] = "",
    resume: Resume = None,
    json_: Json = False,
) -> None:
    """Count the patients of all silos who meet a condition, in a secure sum with noise.

    Each silo's ledger is charged with the epsilon of [count] in study.toml, which all have approved. The same question
    again costs nothing. Small numbers are never shown.
    """
    check_extra("privacy", "fedct coordinator count")
    out, coordinator = Output(as_json=json_), CoordinatorFolder.open(folder)
    study = coordinators_study(coordinator.study)
    silo.count_plan(study)
    chosen: dict[str, Any] = {"algorithm": CountedPatients.name}
    run = RunFolder((resume or dated(coordinator.runs, study.name)).absolute())
    begun = {**run.settings(), "resume": True} if resume else None
    if begun is None:
        if not where:
            raise ConfigError('--where is missing: give a condition, such as --where "age >= 65 and crp > 10"')
        question = PatientCount.of(where, by, study.schema, study.config.columns)
        silo.count_plan(study, question)
        chosen |= {"count-where": question.where.text, "count-by": by}
        if known := _asked_before(coordinator.runs, study, chosen):
            out.say("asked before, so the answer costs nothing")
            _show(out, known)
            return
    else:
        refuse_options(context, {"folder", "resume", "json_"}, "with --resume, as the run has it")
        if begun.get("algorithm") != CountedPatients.name:
            raise ConfigError(f"the run in {resume} counts no patients: go on with 'fedct coordinator run'")
    settings = begun or settings_of(coordinator, study, chosen, scores=False)
    config = RunConfig.from_flower({**settings, "run-dir": str(run.path)})
    check_run(config, None, Subject.real(study), config.roster, begun=begun)
    again = f"fedct coordinator count {in_shell(folder)} --resume {in_shell(run.path)}"
    follow_run(out.console, coordinator, config, run, again)
    _show(out, run.read_json("result.json")["count"])


def _asked_before(runs: Path, study: StudyFolder, chosen: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer to the same question under the same terms, if a run has it."""
    asked = {"study": study.digest.hex(), "where": chosen["count-where"], "by": chosen["count-by"]}
    for result in sorted(runs.glob("*/result.json")):
        try:
            found = RunFolder(result.parent).read_json("result.json").get("count")
        except RunError:
            continue
        if isinstance(found, dict) and asked.items() <= found.items():
            return found
    return None


def _show(out: Output, found: Mapping[str, Any]) -> None:
    table = Table("" if not found["by"] else escape(printable(found["by"])), "patients")
    for name, facts in found["cells"].items():
        table.add_row(escape(printable(name)), drawing.count_in_words(facts, ""))
    cost = f"epsilon {found['epsilon']:g} at delta {found['delta']:g} of each silo's budget, in {found['silos']} silos"
    out.show(found, drawing.count_in_words(found["all"]), *([table] if found["cells"] else []), f"cost: {cost}")
