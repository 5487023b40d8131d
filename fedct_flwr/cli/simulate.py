"""``fedct simulate``: a whole federation on this machine, from data to a table."""

import contextlib
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape

from fedct_flwr import datasets
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.algorithms.table import ALGORITHMS
from fedct_flwr.cli import complete, scoreboard
from fedct_flwr.cli.engine import check_interpreter, run_on_engine
from fedct_flwr.cli.in_process import run_in_process
from fedct_flwr.cli.output import PANEL, Json, Output
from fedct_flwr.cli.overrides import Resume, Set, only, overrides, refuse_options, refuse_twice
from fedct_flwr.cli.printed_rounds import PrintedRounds, print_end, reason
from fedct_flwr.cli.report import write_at_end
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.label_sharing import warnings
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets import FederatedDataset
from fedct_flwr.learners.base import Resumable
from fedct_flwr.learners.build import named_learners
from fedct_flwr.learners.catalog import LEARNER_FOLDER
from fedct_flwr.privacy.budget import budget_of
from fedct_flwr.report.live import live
from fedct_flwr.report.page import available
from fedct_flwr.runs.run_folder import RunFolder, check_new, dated
from fedct_flwr.types import ConfigError, RunError

_DATA: Final = "Data"
_METHOD: Final = "Method"

_OPTIONS: Final = {
    "data": "data",
    "data-dir": "data_dir",
    "label-column": "label",
    "learner": "learner",
    "learner-params": "learner_params",
    "algorithm": "algorithm",
    "num-server-rounds": "rounds",
    "seed": "seed",
}
"""What stands for which key of the run config."""

_Runner: TypeAlias = Callable[[Mapping[str, Any], int, Path, Callable[[], bool]], None]


def simulate(
    context: typer.Context,
    data: Annotated[
        str, typer.Option(help="Data set by name.", autocompletion=complete.data_sets, rich_help_panel=_DATA)
    ] = "heart-disease",
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Instead: folder with public.csv and one CSV or Parquet file per silo.", rich_help_panel=_DATA
        ),
    ] = None,
    label: Annotated[
        str, typer.Option(help="The label column of the files in --data-dir.", rich_help_panel=_DATA)
    ] = "",
    learner: Annotated[
        str,
        typer.Option(
            help="Short name or import path of a classifier; several with commas, one for each silo.",
            autocompletion=complete.learners,
            rich_help_panel=_METHOD,
        ),
    ] = "logistic-regression",
    learner_params: Annotated[
        str, typer.Option(help="The learners' parameters as JSON.", rich_help_panel=_METHOD)
    ] = "{}",
    algorithm: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(ALGORITHMS)}; fedct counts votes as its paper does, fedct-dawid-skene weighs them "
            "by how good each silo is at each class; fedkt and pate take one round, and from fedavg on they are "
            "baselines for networks.",
            autocompletion=complete.algorithms,
            rich_help_panel=_METHOD,
        ),
    ] = "fedct-dawid-skene",
    rounds: Annotated[
        int | None,
        typer.Option(
            help="Most rounds to run; fewer if the consensus reaches a fixed point.",
            show_default="10",
            rich_help_panel=_METHOD,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.", rich_help_panel=_METHOD)] = 0,
    run_dir: Annotated[
        Path | None,
        typer.Option(help="New folder for the run.", show_default="runs/STUDY-TIME", rich_help_panel=PANEL),
    ] = None,
    resume: Resume = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Without Flower's engine, in this process: the same results, sooner.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch/--no-watch", help="Show the run in the browser while it goes on, on this machine.")
    ] = True,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Simulate a federation on Flower's engine: silos co-train, and a table tells what each has gained.

    For example: fedct simulate --learner random-forest --rounds 5. With files of your own: fedct simulate --data-dir
    wards --label ill. All of a run is in its folder: settings, rounds, labels, models, scores.
    """
    out = Output(as_json=json_)
    console = out.console
    # Learners of one's own are looked for where the command is given, here and by the silos' processes.
    os.environ.setdefault(LEARNER_FOLDER, str(Path.cwd()))
    if in_process:
        # As on the engine, silos have a thread each; torch looks when it is imported, for the first learner.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    started = time.monotonic()
    other, begun = {}, None
    if resume:
        # The run in the folder knows its settings; only how long it may go on is ours to say.
        refuse_options(context, allowed={"resume", "rounds", "in_process", "watch", "json_"}, why="with --resume")
        begun = RunFolder(resume.resolve()).settings()
        chosen = {**begun, **only(rounds), "resume": True}
    else:
        other = overrides(set_ or [])
        refuse_twice(context, other, _OPTIONS)
        chosen = {
            "study": _study_name(data_dir) if data_dir else data,
            "data": "files" if data_dir else data,
            "data-dir": str(data_dir.resolve()) if data_dir else "",
            "label-column": label,
            "learner": learner,
            "learner-params": learner_params,
            "algorithm": algorithm,
            "seed": seed,
            **only(rounds),
            **other,
        }
        if chosen.get("initial-model"):
            # The coordinator's process works elsewhere.
            chosen["initial-model"] = str(Path(chosen["initial-model"]).resolve())
        if data_dir and not chosen["label-column"]:
            raise ConfigError("--data-dir needs --label, the name of the label column in the silos' files")
        if label and not data_dir:
            raise ConfigError("--label is for the files in --data-dir: add that, or leave --label out")
        if data_dir:
            refuse_options(context, allowed=set(context.params) - {"data"}, why="with --data-dir")
    path = (resume or run_dir or dated(Path("runs"), str(chosen["study"]))).resolve()
    if not resume:
        check_new(path)
    config = RunConfig.from_flower({**chosen, "run-dir": str(path)})
    dataset = datasets.load(config)
    # Now, before six processes say it in a minute.
    subject, silos = Subject.simulated(dataset), [silo.name for silo in dataset.silos]
    how = check_run(config, dataset, subject, silos, named=other, begun=begun)
    privacy = config.privacy_settings(config.asked_about(len(dataset.public)))
    if privacy.enabled:
        smallest = min(silo.private.size for silo in dataset.silos)
        if weakness := budget_of(privacy).weakness(smallest):
            console.print(f"[yellow]{escape(weakness)}[/]")

    for warning in warnings(config, len(config.roster or dataset.silos)):
        console.print(f"[yellow]{escape(warning)}[/]")
    records = sum(silo.private.size for silo in dataset.silos)
    console.print(f"[bold]{escape(config.study)}[/]: {escape(', '.join(silo.name for silo in dataset.silos))}")
    console.print(f"{records} private records stay at their silos; {len(dataset.public)} public examples, unlabeled")
    folder = RunFolder(path)
    run: _Runner = run_on_engine
    if in_process:
        networks = any(isinstance(learner, Resumable) for learner in named_learners(config, dataset))
        run = partial(run_in_process, one_at_a_time=networks)
    else:
        check_interpreter()
    with _live(path) if watch else contextlib.nullcontext("") as address:
        console.print(f"watch it at {address}\n" if address else "")
        _run(console, config, dataset, folder, run)
        baselines = partial(out.progress, what=scoreboard.TRAINING)
        rows = scoreboard.score(config, how, dataset, folder, baselines)
        scoreboard.save(rows, path / "scores.json")
    console.print()
    document = scoreboard.document(folder, config, how, rows, time.monotonic() - started)
    globally, measure = scoreboard.of_global_models(folder), document["measure"]
    out.show(document, scoreboard.table(rows, how.title, global_models=globally, measure=measure))
    _print_gaps(console, config, folder, rows)
    print_end(console, config, how, folder, time.monotonic() - started)
    out.say(write_at_end(folder))


@contextlib.contextmanager
def _live(path: Path) -> Iterator[str]:
    """Serve the run's page meanwhile; yields its address, or nothing where it cannot be served."""
    with contextlib.ExitStack() as stack:
        address = ""
        if available():
            # Not even a page for the run's own machine is worth the run.
            with contextlib.suppress(ConfigError):
                address = stack.enter_context(live(path)).url
        yield address


def _run(console: Console, config: RunConfig, dataset: FederatedDataset, folder: RunFolder, run: _Runner) -> None:
    """Run, showing each round as it ends. Raises RunError with the reason that the run folder gives."""
    log = Path(tempfile.mkdtemp(prefix="fedct-log-")) / "flower.log"
    status = console.status("starting the simulation")
    watch = PrintedRounds(console, folder, status)
    try:
        with status:
            run(config.to_flower(), len(dataset.silos), log, watch)
        if folder.read_json("result.json").get("status") != "completed":
            raise RunError("the run failed")
    except RunError as error:
        said = log.read_text("utf-8", errors="replace")
        why = reason(folder if watch.is_over else None, said) or str(error)
        raise RunError(f"{why} (log: {_keep(log, folder)})") from None
    except BaseException:
        # Stopped from outside: what was begun is there to be looked at and gone on with.
        if folder.exists():
            _keep(log, folder)
            console.print(f"stopped; to go on: fedct simulate --resume {escape(str(folder.path))}", soft_wrap=True)
        else:
            shutil.rmtree(log.parent, ignore_errors=True)
        raise
    _keep(log, folder)


def _keep(log: Path, folder: RunFolder) -> Path:
    """Move Flower's log to the run folder; if there is none, or no room in it, it stays. Returns where it is."""
    kept = folder.path / log.name
    try:
        shutil.copy(log, kept)
    except OSError:
        return log
    shutil.rmtree(log.parent)
    return kept


def _study_name(folder: Path) -> str:
    """What a study's name may hold of the folder's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("._-")[:64] or "files"


def _print_gaps(console: Console, config: RunConfig, folder: RunFolder, rows: Sequence[scoreboard.SiloScores]) -> None:
    """Say why there is no score where there is none."""
    last = folder.rounds()[-1]["silos"]
    for row in rows:
        silo = escape(row.silo)
        if row.silo not in last:
            console.print(f"[yellow]{silo} had no part in the last round: no scores[/]")
        elif config.save_models and not config.votes and math.isnan(row.pooled["federated"]):
            console.print(f"[yellow]no model was kept of {silo}: see {escape(str(folder.path / 'flower.log'))}[/]")
        if row.silo in last and math.isnan(row.pooled["local"]):
            console.print(f"[yellow]the learner of {silo} could not be trained alone[/]")
