"""``fedct coordinator draw``: a public set where none exists, from a data dictionary or real silos' counts."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fedct_flwr import silo
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.algorithms.noisy_counts import FILE, DrawnSet
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, coordinators_study
from fedct_flwr.cli.coordinator.run import follow_run, settings_of
from fedct_flwr.cli.output import Output, check_new
from fedct_flwr.cli.run_options import Resume, refuse_options
from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.tables import ColumnForm
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.coordinator.summing import real_terms
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.drawing.cells import Form, columns_of
from fedct_flwr.files import write_atomically
from fedct_flwr.labelers.labeler import check_extra
from fedct_flwr.runs.run_folder import RunFolder, dated
from fedct_flwr.text.printable import count, from_here, in_shell, listed
from fedct_flwr.types import ConfigError, generator

_ENDINGS: Final = (".toml", ".json", ".csv")


def draw(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(help="The coordinator's folder, to ask real silos.", show_default=False)
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="The data dictionary: study.toml or another file with [columns], a frictionless Table Schema (JSON), "
            "or REDCap's (CSV). Its ending may be left out.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Ask real silos for counts with noise, for the epsilon of [draw] in study.toml.", min=0),
    ] = None,
    rows: Annotated[int, typer.Option(help="Examples to draw.", min=1, max=100_000)] = 2000,
    output: Annotated[Path, typer.Option(help="New file for the public set.")] = Path("public.csv"),
    leave_out: Annotated[
        list[str] | None, typer.Option(help="A column that is no feature, such as the label; repeat it for more.")
    ] = None,
    columns: Annotated[
        Path | None, typer.Option(help="New file for the dictionary as the [columns] of a study.toml.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the values.")] = 0,
    resume: Resume = None,
) -> None:
    """Draw a public set where none exists: values of a data dictionary, evenly spread, or as frequent as at real silos.

    With --from no silo has a part in it. With --epsilon silos count the values of their columns, in secure sums with
    noise: their ledgers are charged, and all have approved that.
    """
    for new in filter(None, (output, columns)):
        check_new(new)
    if (from_ is None) == (epsilon is None):
        raise ConfigError("a set is drawn from a dictionary or from silos: give --from FILE, or --epsilon E and FOLDER")
    if from_ is not None:
        refuse_options(context, {"from_", "rows", "output", "leave_out", "columns", "seed"}, "with --from")
        _from_dictionary(from_, rows, output, leave_out or (), columns, seed)
        return
    allowed = {"folder", "epsilon", "output", "resume"}
    if resume:
        refuse_options(context, allowed, "with --resume, as the run has it")
    refuse_options(context, {*allowed, "rows", "seed"}, "with --epsilon")
    if folder is None:
        raise ConfigError("to ask real silos, name the coordinator's folder: fedct coordinator draw FOLDER --epsilon E")
    _from_silos(folder, epsilon, {"draw-rows": rows, "seed": seed}, output, resume)


def _from_dictionary(
    given: Path, rows: int, output: Path, leave_out: Collection[str], columns: Path | None, seed: int
) -> None:
    named = [given, *(given.with_name(given.name + ending) for ending in _ENDINGS)]
    path = next((path for path in named if path.is_file()), given)
    dictionary = Dictionary.of_file(path).without(leave_out)
    form = Form(dictionary, columns_of(dictionary))
    write_atomically(output, form.csv(form.uniform(rows, generator(seed, "drawn set"))))
    if columns:
        write_atomically(columns, dictionary.to_toml().encode())
    _tell(rows, dictionary.columns, output)
    if dictionary.left_out:
        Output().say(f"left out, as free text, files, calculated or identifiers: {listed(dictionary.left_out)}")


def _from_silos(
    folder: Path, epsilon: float | None, chosen: Mapping[str, Any], output: Path, resume: Path | None
) -> None:
    check_extra("privacy", "--epsilon")

    coordinator = CoordinatorFolder.open(folder)
    study = coordinators_study(coordinator.study)
    if (plan := silo.plan_of(study)).epsilon != epsilon:
        raise ConfigError(
            f"[draw] in study.toml has epsilon {plan.epsilon:g}, which silos approve: give --epsilon {plan.epsilon:g}, "
            "or change [draw] and let them approve it"
        )
    run = RunFolder((resume or dated(coordinator.runs, study.name)).absolute())
    begun = {**run.settings(), "resume": True} if resume else None
    settings = begun or settings_of(coordinator, study, {**chosen, "algorithm": DrawnSet.name}, scores=False)
    if settings["algorithm"] != DrawnSet.name:
        raise ConfigError(f"the run in {resume} draws no public set: go on with 'fedct coordinator run'")
    config = RunConfig.from_flower({**settings, "run-dir": str(run.path)})
    real_terms(Subject.real(study), config.roster)
    check_run(config, None, Subject.real(study), config.roster, begun=begun)
    again = f"fedct coordinator draw {in_shell(folder)} --epsilon {epsilon:g} --resume {in_shell(run.path)}"
    out = Output()
    follow_run(out.console, coordinator, config, run, again)
    write_atomically(output, (run.path / FILE).read_bytes())
    _tell(config.draw_rows, {column.name: study.config.columns[column.name] for column in study.schema.columns}, output)
    if note := run.read_json("result.json")["drawn"]["note"]:
        out.warn(note)
    out.say("put the file into the study's folder as its public set, and let the silos approve the study again")


def _tell(rows: int, columns: Mapping[str, ColumnForm], output: Path) -> None:
    out = Output()
    out.say(f"{count(rows, 'example')} of {count(len(columns), 'column')} in {from_here(output)}")
    if any(column.kind == "date" for column in columns.values()):
        out.say("dates are as 2024-12-31: write dates = '%Y-%m-%d' under [tables] in study.toml")
