"""``fedct coordinator run`` and ``stop``: one run with real silos, from the study's folder to a table."""

import contextlib
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape

from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.algorithms.noisy_counts import Counting
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder, coordinators_study
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.printed_rounds import PrintedRounds, show_run
from fedct_flwr.cli.report import write_at_end
from fedct_flwr.cli.run_options import Package, Resume, Set, only, overrides, refuse_options, trusting
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.evaluation import scoreboard
from fedct_flwr.files import write_atomically
from fedct_flwr.flower.command import NoAnswer, RunOver, SuperLink
from fedct_flwr.learners.catalog import check_from_file
from fedct_flwr.runs import scores
from fedct_flwr.runs.records import reason
from fedct_flwr.runs.run_folder import RunFolder, check_new, dated
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import ConfigError, RunError

_POLL_SECONDS: Final = 0.2
_ASK_SECONDS: Final = 10.0
_PENDING_SECONDS: Final = 120.0
_OUTAGE_SECONDS: Final = 600.0
_STOP_SECONDS: Final = 30.0
_OURS: Final = ("study", "data", "data-dir")
"""Keys of the run config that this command sets."""
_AWAY: Final = "the SuperLink does not answer: waiting for it to come back"


def run(
    context: typer.Context,
    folder: Folder,
    rounds: Annotated[
        int | None,
        typer.Option(help="Most rounds to run; fewer if the consensus reaches a fixed point.", show_default="10"),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Ask for test scores; silos send them only if their policy allows it.")
    ] = False,
    run_dir: Annotated[
        Path | None, typer.Option(help="New folder for the run.", show_default="FOLDER/runs/STUDY-TIME")
    ] = None,
    resume: Resume = None,
    package: Package = None,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Run the study with real silos on the running SuperLink: rounds are shown as they end.

    The silos choose data and learners themselves. Interrupted, it ends the run, which can be gone on with.
    """
    out = Output(as_json=json_)
    console = out.console
    started = time.monotonic()
    coordinator = CoordinatorFolder.open(folder)
    study = coordinators_study(coordinator.study)
    other, begun = {}, None
    if resume:
        again = {"folder", "resume", "package", "rounds", "json_"}
        refuse_options(context, allowed=again, why="with --resume")
        begun = RunFolder(resume.absolute()).settings()
        if begun.get("data") != STUDY:
            instead = f"fedct simulate --resume {in_shell(resume)}"
            raise ConfigError(f"the run in {resume} is a simulation: go on with '{instead}'")
        chosen = {**begun, **only(rounds), "resume": True}
    else:
        other = overrides(set_ or [])
        chosen = settings_of(coordinator, study, other, scores=scores) | only(rounds) | other
    path = (resume or run_dir or dated(coordinator.runs, study.name)).absolute()
    if not resume:
        check_new(path)
    config = RunConfig.from_flower({**chosen, "run-dir": str(path)})
    if resume:
        check_from_file(config.learner_names, package or (), path)
    if isinstance(config.method, Counting):
        name = config.algorithm
        raise ConfigError(f"algorithm {name!r} has a command of its own: fedct coordinator {name} FOLDER")
    check_run(config, None, Subject.real(study), config.roster, named=other, begun=begun)

    console.print(f"[bold]{escape(config.study)}[/]: {escape(', '.join(config.roster))}")
    console.print(f"private records stay at their silos; {len(study.public)} public examples, unlabeled\n")
    run_folder = RunFolder(path)
    command = f"fedct coordinator run {in_shell(folder)} --resume {in_shell(path)}{trusting(config.to_flower())}"
    follow_run(console, coordinator, config, run_folder, command)
    _show(out, config, run_folder, started)
    console.print(escape(write_at_end(run_folder)), soft_wrap=True)


def settings_of(
    coordinator: CoordinatorFolder, study: StudyFolder, given: dict[str, Any], *, scores: bool
) -> dict[str, Any]:
    """The run config of a new run with the study's silos. Raises ConfigError for a key that the study defines."""
    for key in _OURS:
        if key in given:
            raise ConfigError(f"{key!r} cannot be overridden; the study in {coordinator.study} defines it")
    silos = coordinator.keys()
    if not silos and "roster" not in given:
        raise ConfigError(
            f"there is no silo's key in {coordinator.silos}: admit silos with 'fedct coordinator register', or name "
            "them with --set roster=..."
        )
    asked = {"report-scores": True} if scores else {}
    ours = {"study": study.name, "data": STUDY, "data-dir": str(coordinator.study), "roster": ",".join(silos)}
    return ours | given | asked


def follow_run(
    console: Console, coordinator: CoordinatorFolder, config: RunConfig, run_folder: RunFolder, again: str
) -> None:
    """Start the run and follow it to its end. Raises RunError with the reason that the run folder gives.

    ``again``: the command that goes on with it.
    """
    status = console.status("starting the run on the SuperLink")
    watch = PrintedRounds(console, run_folder, status)
    with SuperLink(coordinator.address(), coordinator.ca) as superlink, status:
        run_id = superlink.start(config.to_flower())
        try:
            status.update("waiting for the silos")
            _follow(console, superlink, run_id, watch, run_folder)
        except RunError as error:
            _stop(superlink, run_id)
            if not isinstance(error, RunOver) or not run_folder.exists():
                raise
            lost = RunError(f"{error}; go on with: {again}")
            if run_folder.ended_at() is None:
                # Its app was ended and could not say it: reports and the live page would wait for ever.
                with contextlib.suppress(RunError):
                    run_folder.finish("failed", reason=str(lost))
            raise lost from None
        except BaseException:
            # Stopped from outside: what was begun is there to be gone on with.
            _stop(superlink, run_id)
            if run_folder.exists():
                console.print(f"stopped; to go on: {escape(again)}", soft_wrap=True)
            raise
        finally:
            log = _keep_log(superlink, run_id, run_folder)
    if run_folder.read_json("result.json").get("status") != "completed":
        why = reason(run_folder, log) or "the run failed"
        raise RunError(f"{why}; go on with: {again}" if run_folder.rounds() else why)


def _follow(console: Console, superlink: SuperLink, run_id: int, watch: PrintedRounds, run_folder: RunFolder) -> None:
    """Return when the coordinator's app has said how the run ended. Raises RunError if it never will."""
    started = answered = asked = time.monotonic()
    while not watch():
        time.sleep(_POLL_SECONDS)
        now = time.monotonic()
        if now - asked < _ASK_SECONDS:
            continue
        try:
            state = superlink.status(run_id)
        except NoAnswer:
            # A restarted SuperLink goes on with the run, so silence does not mean that the run is over.
            if answered >= asked:
                console.print(f"[yellow]{_AWAY}[/]")
            asked = time.monotonic()
            if asked - answered > _OUTAGE_SECONDS:
                raise
            continue
        asked = answered = time.monotonic()
        if state.startswith("finished") and not watch():
            raise RunOver(
                reason(None, superlink.log(run_id))
                or (state.endswith("stopped") and "the run was stopped, as by 'fedct coordinator stop'")
                or f"the run is over for Flower ({state}) but left no result in {run_folder.path}: the SuperExec was "
                "started again, or does not see that folder under the same name"
            )
        if state == "pending" and now - started > _PENDING_SECONDS:
            raise RunError(
                f"no SuperExec took the run within {_PENDING_SECONDS:g} s: see that the coordinator's SuperExec runs"
            )


def _stop(superlink: SuperLink, run_id: int) -> None:
    """End the run, if it is not over, and wait until Flower says that it is."""
    with contextlib.suppress(RunError):
        superlink.stop(run_id)
        end = time.monotonic() + _STOP_SECONDS
        while not superlink.status(run_id).startswith("finished") and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)


def _keep_log(superlink: SuperLink, run_id: int, run_folder: RunFolder) -> str:
    """Output of the coordinator's app, also kept in the run folder if there is one with room."""
    try:
        log = superlink.log(run_id)
    except RunError:
        return ""
    if run_folder.exists() and log:
        with contextlib.suppress(OSError):
            # Replaced and not written to: the folder is the SuperExec's, where code of others may have put a link.
            write_atomically(run_folder.path / "flower.log", log.encode())
    return log


def _show(out: Output, config: RunConfig, run_folder: RunFolder, started: float) -> None:
    """Keep the scores, if they were asked for, and what silos gained; show both."""
    rows = scoreboard.reported(run_folder, config.roster)
    if config.report_scores:
        scores.save(rows, run_folder.path / scores.FILE)
    # Real silos keep what they make of the consensus to themselves.
    verdict = scoreboard.who_gained(rows, run_folder, None)
    with contextlib.suppress(OSError):
        scoreboard.save_gains(verdict, run_folder)
    seconds = time.monotonic() - started
    show_run(out, run_folder, config, rows, verdict, seconds, "it keeps them to itself, or has no test records")


def stop(
    folder: Folder,
    run_id: Annotated[
        int | None, typer.Argument(help="Flower's number of the run.", show_default="all that are under way")
    ] = None,
    json_: Json = False,
) -> None:
    """End a run that is under way. It can be gone on with later: fedct coordinator run FOLDER --resume RUN_FOLDER."""
    out = Output(as_json=json_)
    coordinator = CoordinatorFolder.open(folder)
    with SuperLink(coordinator.address(), coordinator.ca) as superlink:
        runs = superlink.unfinished() if run_id is None else [run_id]
        for number in runs:
            superlink.stop(number)
            out.say(f"run {number} is stopped")
    if not runs:
        out.say("no run is under way")
    out.show({"stopped": runs})
