"""``fedct report``: a run as one HTML page."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from fedct_flwr.cli.output import Output, check_new
from fedct_flwr.cli.privacy_sheet import sheet_of_run
from fedct_flwr.report import crate as crates
from fedct_flwr.report.figures import Section
from fedct_flwr.report.page import NAME, check_extra, write_report
from fedct_flwr.report.summary import RunSummary
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.text.printable import from_here, in_shell
from fedct_flwr.types import ConfigError, FedctError, RunError

_DRAWING: Final = "drawing the report"


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="The folder of a run.")],
    output: Annotated[
        Path | None,
        typer.Option(help="Write there.", show_default="report.html in the run's folder"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    crate: Annotated[
        bool, typer.Option("--crate", help="Instead: a Research Object Crate for reviewers, RUN/crate.zip.")
    ] = False,
    models: Annotated[
        bool, typer.Option("--models", help="In the crate: also the models, which may reveal records.")
    ] = False,
) -> None:
    """Write a run as one HTML page that needs no network.

    Also of a run that goes on or has failed. Exit code 4 for a folder that is not a run folder, or of a newer version.
    """
    if len(runs) > 1:
        raise ConfigError("a report shows one run: compare several with 'fedct compare RUN...'")
    if models and not crate:
        raise ConfigError("--models is for a crate: add --crate, or leave it out")
    (crates.check_extra if crate else check_extra)()
    (path,) = runs
    if not path.is_dir():
        raise RunError(f"there is no run folder {path}: a run prints where its own is")
    target = output or path / (crates.NAME if crate else NAME)
    check_new(target, force=force)
    if crate:
        _write_crate(path, target, models=models)
        return
    with Output.doing(_DRAWING):
        run = RunSummary(path)
        write_report(run, target, "; name another file with --output")
    out = Output()
    if not len(run.course):
        out.warn(f"no round of {path} has ended yet: the page says so")
    out.say(f"report: {target}")


def _write_crate(run: Path, target: Path, *, models: bool) -> None:
    out, sheet = Output(), ""
    with Output.doing("collecting the crate"):
        try:
            sheet = sheet_of_run(run)
        except ConfigError as error:
            out.warn(f"the crate has no privacy sheet: {error}")
        crates.write_crate(run, target, sheet, models=models)
    out.say(f"crate: {target}")


def write_meanwhile(folder: RunFolder, *, ended: bool = False) -> None:
    """Write the report of a run that goes on, where the extra is installed; the page loads itself again.

    A failure is not an error: the next round, or the end of the run, writes the page.
    """
    with suppress(FedctError, OSError):
        check_extra()
        write_report(RunSummary(folder.path), folder.path / NAME, reloads=not ended)


def write_at_end(folder: RunFolder, target: Path | None = None, splits: Section | None = None) -> str:
    """Write the report of a run that has just ended, below ``splits``; returns the line to print about it.

    A failure is said in that line: the run itself has gone well, and ``fedct report`` makes up for it.
    """
    target = target or folder.path / NAME
    try:
        check_extra()
        with Output.doing(_DRAWING):
            write_report(RunSummary(folder.path), target, splits=splits)
    except (FedctError, OSError, ImportError) as error:
        # Other errors are faults of this code, and should be visible as such.
        return f"no report was written: {error}; after that: fedct report {in_shell(from_here(folder.path))}"
    return f"report: {from_here(target)}"
