"""``fedct simulate``: a whole federation on this machine, from data to a table."""

import math
import os
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape

from fedct_flwr.algorithms import ALGORITHMS, DEFAULT
from fedct_flwr.cli.output import PANEL, Json, Output
from fedct_flwr.cli.printed_rounds import PrintedRounds, show_run
from fedct_flwr.cli.report import write_at_end, write_meanwhile
from fedct_flwr.cli.run_options import (
    DATA,
    Accept,
    DataDir,
    DataSet,
    Group,
    Label,
    Package,
    Resume,
    Set,
    data_settings,
    only,
    overrides,
    refuse_options,
    trusting,
)
from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.inspection import Redaction, gathered
from fedct_flwr.datasets.inspection.table_one import largest
from fedct_flwr.evaluation import scoreboard
from fedct_flwr.learners.catalog import LEARNER_FOLDER
from fedct_flwr.report.figures import Figure, PageTable, Section, layout, line
from fedct_flwr.report.page import NAME, RELOAD_SECONDS, plotly_script
from fedct_flwr.runs import scores
from fedct_flwr.runs.run_folder import RunFolder, check_new, dated
from fedct_flwr.simulation.repeats import (
    TESTS,
    Repeats,
    at_once,
    planned_seeds,
    run_one,
    run_seeds,
    seed_folder,
    seeds_in,
    seeds_to_go_on_with,
    settings_of,
)
from fedct_flwr.simulation.simulation import LOG, Engine, Runner, Simulation
from fedct_flwr.text.console import bar, progress
from fedct_flwr.text.printable import from_here, in_shell, printable
from fedct_flwr.types import RunError

_METHOD: Final = "Method"
_SIMULATED: Final = [name for name in ALGORITHMS if name not in ("draw", "count")]
"""A simulation draws its public set before a run, and ``count()`` counts."""
_SPLITS: Final = 8
_SECONDS: Final = 60
"""Time to begin them in: one split of some hundred patients is chance."""


def simulate(
    context: typer.Context,
    data: DataSet = "heart-disease",
    data_dir: DataDir = None,
    label: Label = "",
    group: Group = "",
    accept: Accept = None,
    public: Annotated[
        str,
        typer.Option(
            help="given: the data's own public set; drawn: one that is drawn from noisy counts, see draw-epsilon and "
            "draw-dictionary under --set.",
            rich_help_panel=DATA,
        ),
    ] = "given",
    learner: Annotated[
        str,
        typer.Option(
            help="Short name or import path of a classifier, several with commas, one for each silo; auto: each silo "
            "chooses by its own records.",
            rich_help_panel=_METHOD,
        ),
    ] = AUTO,
    learner_params: Annotated[
        str, typer.Option(help="The learners' parameters as JSON.", rich_help_panel=_METHOD)
    ] = "{}",
    algorithm: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(_SIMULATED)}; fedct counts votes as its paper does, fedct-dawid-skene weighs them "
            "by how good each silo is at each class; fedkt and pate take one round, and from fedprox on they are "
            "baselines for networks.",
            rich_help_panel=_METHOD,
        ),
    ] = DEFAULT,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="Most rounds to run; fewer if the consensus reaches a fixed point.",
            show_default="10",
            rich_help_panel=_METHOD,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of every random choice, and of one run.", show_default="0 and on", rich_help_panel=_METHOD
        ),
    ] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(help="New folder for the run.", show_default="runs/STUDY-TIME", rich_help_panel=PANEL),
    ] = None,
    resume: Resume = None,
    package: Package = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Number of seeds to run, in a folder each; prints means with standard errors.",
            show_default=f"{_SPLITS}, or as many as begin in {_SECONDS} s; one with --seed, --rounds, --run-dir or "
            "--on-engine",
            rich_help_panel=_METHOD,
        ),
    ] = None,
    in_process: Annotated[
        bool | None,
        typer.Option(
            "--in-process/--on-engine",
            help="Without Flower's engine, in this process: the same results, sooner.",
            show_default="on the engine, --repeats in this process",
        ),
    ] = None,
    no_baselines: Annotated[
        bool,
        typer.Option(
            "--no-baselines",
            help="Train no models to compare with: neither silos alone nor all data in one place.",
            rich_help_panel=_METHOD,
        ),
    ] = False,
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
    one_run = (seed, rounds, run_dir, resume) != (None,) * 4 or in_process is False
    several = repeats is not None or not one_run
    repeated = several or (resume is not None and bool(seeds_in(resume)))
    engine: Engine = "loopback" if in_process or (repeated and in_process is None) else "flower"
    if engine == "loopback":
        # As on the engine, silos have a thread each; torch looks when it is imported, for the first learner.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    started = time.monotonic()
    other, begun = {}, None
    trusted = (package or ()) if resume else None
    if resume:
        # The run in the folder knows its settings; only how long it may go on is ours to say.
        again = {"resume", "package", "in_process", "json_"}
        allowed = again | {"repeats" if repeated else "rounds"}
        refuse_options(context, allowed=allowed, why="with --resume")
        if repeated:
            before = seeds_to_go_on_with(resume)
            seeds = planned_seeds(repeats or max(2, len(before)), None, before)
            _run_repeats(
                out, resume.resolve(), settings_of(seed_folder(resume, before[0])), seeds, engine, packages=trusted
            )
            return
        begun = RunFolder(resume.resolve()).settings()
        chosen = {**begun, **only(rounds), "resume": True}
    else:
        other = overrides(set_ or [])
        chosen = {
            **data_settings(context, data, data_dir, label, group, accept),
            "public": public,
            "learner": learner,
            "learner-params": learner_params,
            "algorithm": algorithm,
            "seed": seed or 0,
            **only(rounds),
            **({"baselines": "none"} if no_baselines else {}),
            **other,
        }
        if chosen.get("initial-model"):
            # The coordinator's process works elsewhere.
            chosen["initial-model"] = str(Path(chosen["initial-model"]).resolve())
    path = (resume or run_dir or dated(Path("runs"), str(chosen["study"]))).resolve()
    if several:
        check_new(path)
        seeds = planned_seeds(repeats or _SPLITS, int(chosen["seed"]))
        # A fault of one seed is a fault of all, but for a split that leaves a silo without a class.
        _print_data(out, Simulation.checked(chosen, seed_folder(path, seeds[0]), named=other))
        _run_repeats(out, path, chosen, seeds, engine, other, seconds=math.inf if repeats else _SECONDS)
        return
    simulation = Simulation.checked(chosen, path, named=other, begun=begun, packages=trusted)
    config, how, folder = simulation.config, simulation.algorithm, simulation.folder
    _print_data(out, simulation)
    runner = simulation.runner(engine)
    if plotly_script().is_file():
        out.say(f"open it in a browser while the run goes on: {from_here(path / NAME)}\n")
    _run(console, simulation, runner)
    untold: list[str] = []
    rows = simulation.score(partial(progress, what=scoreboard.TRAINING), untold.append)
    for sentence in untold:
        out.warn(printable(sentence))
    verdict, seconds = folder.read_json(scores.VERDICT), time.monotonic() - started
    kept = config.save_models and not how.asks_students()
    why = f"no model was kept: see {folder.path / LOG}" if kept else ""
    show_run(out, folder, config, rows, verdict, seconds, why, simulation.findings)
    out.say(write_at_end(folder))


def _run_repeats(
    out: Output,
    folder: Path,
    settings: Mapping[str, Any],
    seeds: Sequence[int],
    engine: Engine,
    named: Collection[str] = (),
    packages: Collection[str] | None = None,
    seconds: float = math.inf,
) -> None:
    """Run what is missing, and show means with standard errors. Raises RunError.

    ``packages`` are as in ``Simulation.checked``; after ``seconds`` no other seed is begun.
    """
    out.say(f"{len(seeds)} seeds from {seeds[0]} on, in {from_here(folder)}")
    begin = partial(run_one, settings, engine, named, packages)
    again = f"fedct simulate --resume {in_shell(from_here(folder))} --repeats {len(seeds)}{trusting(settings)}"
    try:
        with bar("splits", len(seeds)) as advance:
            run_seeds(folder, seeds, begin, lambda run: advance(1), at_once(engine), seconds)
    except BaseException:
        if seeds_in(folder):
            out.say(f"stopped; to go on: {again}")
        raise
    found = Repeats(folder)
    out.show(found.document, "", found._table())
    if sentence := found.sentence:
        out.console.print(f"[bold]{escape(sentence)}[/]", soft_wrap=True)
    if len(found.seeds) < len(seeds):
        out.say(f"{len(found.seeds)} of {len(seeds)} seeds began within {seconds:.0f} s; to run the others: {again}")
    out.say(f"runs: {from_here(folder)}/seed-*; ± is the standard error over {len(found.seeds)} seeds")
    out.say(write_at_end(RunFolder(seed_folder(folder, found.seeds[0])), folder / NAME, _splits(found)))


def _splits(found: Repeats) -> Section:
    """Means over all splits, and a picture of what each gained."""
    measure, tables = found.first.measure, []
    for words, lines in found.lines:
        name = f"{measure[:1].upper()}{measure[1:]}, means over {len(found.seeds)} splits, {words}"
        tables.append((name, PageTable(["", *found.columns], [[silo, *found.cells(of)] for silo, of in lines])))
    traces, rows = [], []
    for place, (test, words) in enumerate(TESTS.items()):
        gains = [of["federated"] - of["local"] for of in (scores.means(rows, test) for rows in found.rows)]
        traces.append(line(words, found.seeds, gains, place, mode="markers"))
        rows.append([words, *(f"{gain:+.3f}" for gain in gains)])
    shape = layout("seed", f"difference in {measure} to silos alone", {"dtick": 1}, {})
    table = PageTable(["test", *(f"seed {seed}" for seed in found.seeds)], rows)
    figure = Figure("splits", "Gains split by split", "Each point is a split.", traces, shape, table)
    figures, notes = ([figure] if "local" in found.methods else []), [found.sentence] if found.sentence else []
    return Section("splits", f"{len(found.seeds)} splits", figures, tables, notes)


def _print_data(out: Output, simulation: Simulation) -> None:
    """Say what the data are, and what is suspicious about them."""
    console, dataset = out.console, simulation.dataset
    for caution in [*simulation.notes(), *simulation.cautions()]:
        console.print(f"[yellow]{escape(caution)}[/]")
    for finding in gathered(simulation.findings):
        out.warn(finding.sentence)
    records = sum(silo.private.size for silo in dataset.silos)
    names = ", ".join(silo.name for silo in dataset.silos)
    console.print(f"[bold]{escape(simulation.config.study)}[/]: {escape(names)}")
    console.print(f"{records} private records stay at their silos; {len(dataset.public)} public examples, unlabeled")
    if sentence := largest(simulation.table_one, Redaction()):
        console.print(escape(sentence), soft_wrap=True)


class _ReportedRounds(PrintedRounds):
    """Also writes the run's page again, at most as often as an open page loads itself again."""

    _written_at = -math.inf

    def _print(self, entry: Mapping[str, Any]) -> None:
        super()._print(entry)
        if time.monotonic() - self._written_at > RELOAD_SECONDS:
            self._written_at = time.monotonic()
            write_meanwhile(self._folder)


def _run(console: Console, simulation: Simulation, runner: Runner) -> None:
    """Run, showing each round as it ends. Raises RunError with the reason that the run folder gives."""
    folder = simulation.folder
    status = console.status("starting the simulation")
    try:
        with status:
            simulation.run(runner, _ReportedRounds(console, folder, status))
    except BaseException as error:
        if (folder.path / NAME).exists():
            write_meanwhile(folder, ended=True)
        if not isinstance(error, RunError) and folder.exists():
            again = f"fedct simulate --resume {in_shell(folder.path)}{trusting(simulation.config.to_flower())}"
            console.print(f"stopped; to go on: {escape(again)}", soft_wrap=True)
        raise
