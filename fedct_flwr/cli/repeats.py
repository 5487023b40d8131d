"""``fedct simulate --repeats``: the same simulation under several seeds."""

import math
import time
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from joblib import cpu_count
from rich.markup import escape

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.report import write_at_end
from fedct_flwr.cli.run_options import trusting
from fedct_flwr.report.figures import COLORS, Figure, Section, Table, layout, numbers
from fedct_flwr.report.page import NAME
from fedct_flwr.runs import scores
from fedct_flwr.runs.records import Monitor
from fedct_flwr.runs.run_folder import RunFolder, check_new
from fedct_flwr.simulation.repeats import (
    TESTS,
    Mean,
    Plan,
    Repeats,
    planned_seeds,
    run_seeds,
    seed_folder,
    settings_of,
)
from fedct_flwr.simulation.simulation import Engine, Simulation
from fedct_flwr.text.console import bar
from fedct_flwr.text.printable import from_here, in_shell, plain
from fedct_flwr.types import RunError

_MOST_AT_ONCE: Final = 4


def begun_repeats(folder: Path, repeats: int | None) -> Plan:
    """The plan to go on with, perhaps with more seeds. Raises ConfigError, RunError where nothing was begun."""
    plan = Plan.read(folder)
    settings = plan.settings or settings_of(seed_folder(folder, plan.seeds[0]))
    return Plan(settings, planned_seeds(repeats or len(plan.seeds), None, plan))


def new_repeats(
    settings: Mapping[str, Any], repeats: int, folder: Path, named: Collection[str]
) -> tuple[Plan, Simulation]:
    """The plan of repeats that begin with the settings' seed, and its first run; nothing is written.

    Raises like ``Simulation.checked``.
    """
    check_new(folder)
    seeds = planned_seeds(repeats, int(settings["seed"]))
    plan = Plan({key: value for key, value in settings.items() if key != "seed"}, seeds)
    # What is wrong with one seed is wrong with all, but for a split that leaves a silo without a class.
    first = Simulation.checked({**plan.settings, "seed": seeds[0]}, seed_folder(folder, seeds[0]), named=named)
    return plan, first


def run_repeats(
    out: Output,
    folder: Path,
    plan: Plan,
    engine: Engine,
    named: Collection[str] = (),
    packages: Collection[str] | None = None,
    seconds: float = math.inf,
) -> None:
    """Run what is missing, and show means with standard errors. Raises RunError.

    ``packages`` are as in ``Simulation.checked``; after ``seconds`` no other seed is begun.
    """
    out.say(f"{len(plan.seeds)} seeds from {plan.seeds[0]} on, in {from_here(folder)}")
    start = time.monotonic()

    def enough(ended: int, next_ones: int) -> bool:
        # The next ones take as long as those before.
        return (time.monotonic() - start) * (ended + next_ones) / ended > seconds

    begin = partial(run_one, plan.settings, engine, named, packages)
    try:
        with bar("splits", len(plan.seeds)) as advance:
            run_seeds(folder, plan, begin, lambda run: advance(1), enough, at_once(engine))
    except BaseException as error:
        if not isinstance(error, RunError) or folder.exists():
            out.say(
                f"stopped; to go on: fedct simulate --resume {in_shell(from_here(folder))}{trusting(plan.settings)}"
            )
        raise
    found = Repeats(folder)
    table = found._table()
    out.show(repeats_document(found), "", table)
    if said := found.sentence:
        out.console.print(f"[bold]{escape(said)}[/]", soft_wrap=True)
    out.say(f"runs: {from_here(folder)}/seed-*; ± is the standard error over {len(found.seeds)} seeds")
    out.say(write_at_end(RunFolder(seed_folder(folder, found.seeds[0])), folder / NAME, [_gains(found)]))


def _gains(found: Repeats) -> Section:
    """The picture of what each split gained."""
    traces, rows = [], []
    for color, (test, words) in zip(COLORS, TESTS.items(), strict=False):
        means = [scores.means(of, test) for of in found.rows]
        gains = [of["federated"] - of["local"] for of in means]
        look = {"type": "box", "boxpoints": "all", "marker": {"color": color}}
        traces.append({**look, "name": words, "x": numbers(gains)})
        rows.append([words, *(f"{gain:+.3f}" for gain in gains)])
    shape = layout(x={"title": {"text": f"difference in {found.first.measure} to silos alone"}, "zeroline": True}, y={})
    table = Table(["test", *(f"seed {seed}" for seed in found.seeds)], rows)
    figure = Figure("splits", "What silos gain, split by split", found.sentence, traces, shape, table)
    return Section("splits", f"{len(found.seeds)} splits", [figure] if "local" in found.methods else [])


def at_once(engine: Engine) -> int:
    """Number of runs at a time: each has its data in memory, and Flower's engine takes all cores for one."""
    return 1 if engine == "flower" else min(_MOST_AT_ONCE, cpu_count())


def run_one(
    settings: Mapping[str, Any],
    engine: Engine,
    named: Collection[str],
    packages: Collection[str] | None,
    path: Path,
    seed: int,
    goes_on: bool,
) -> None:
    """Begin a run in a new folder, or resume it there, and score it. Raises like ``Simulation``."""
    begun = RunFolder(path).settings() if goes_on else None
    chosen = {**begun, "resume": True} if begun is not None else {**settings, "seed": seed}
    simulation = Simulation.checked(chosen, path, named=named, begun=begun, packages=packages)
    simulation.run(simulation.runner(engine), Monitor(simulation.folder, lambda record: None))
    simulation.score()


def repeats_document(found: Repeats) -> dict[str, Any]:
    """The means for programs."""
    first = found.first
    return {
        "study": first.config.study,
        "algorithm": first.config.algorithm,
        "folder": str(found.path),
        "seeds": list(found.seeds),
        "measure": first.measure,
        "silos": [
            {"silo": silo, **{test: _document(found.of_silo(silo, test)) for test in TESTS}} for silo in found.silos
        ],
        "mean": {test: _document(found.of_all(test)) for test in TESTS},
    }


def _document(means: Mapping[str, Mean]) -> dict[str, Any]:
    return {name: plain(mean._asdict()) for name, mean in means.items()}
