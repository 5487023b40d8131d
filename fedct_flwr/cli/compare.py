"""``fedct compare``: algorithms and learners ranked on one's own data, and which differences mean nothing."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fedct_flwr.algorithms import DEFAULT
from fedct_flwr.cli.output import PANEL, Json, Output
from fedct_flwr.cli.run_options import (
    Accept,
    DataDir,
    DataSet,
    Group,
    Label,
    Set,
    data_settings,
    only,
    overrides,
    refuse_options,
)
from fedct_flwr.config.run import RunConfig
from fedct_flwr.learners.catalog import LEARNER_FOLDER, named_in, package
from fedct_flwr.runs.run_folder import check_new, dated
from fedct_flwr.runs.scores import Test
from fedct_flwr.simulation.comparing import Comparison, LeftOut, compared, groups_of, pairs_of, settings_for, verdict
from fedct_flwr.simulation.repeats import (
    Repeats,
    at_once,
    planned_seeds,
    run_one,
    run_seeds,
    seed_folder,
    seeds_in,
    settings_of,
)
from fedct_flwr.simulation.run import Run, read_run
from fedct_flwr.text.console import bar
from fedct_flwr.text.printable import count, from_here, in_shell
from fedct_flwr.types import ConfigError, FedctError

_METHOD: Final = "Methods"
_INSTEAD: Final = {
    "seed": "use --seed", "algorithm": "use --algorithms", "learner": "use --learners",
    "baselines": "silos alone are part of each comparison",
}  # fmt: skip
"""Settings that each run of a comparison has for itself."""
_REPEATS: Final = 10


def compare(
    context: typer.Context,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN...]", help="Folders of runs, or of repeats, to compare as they are."),
    ] = None,
    data: DataSet = "heart-disease",
    data_dir: DataDir = None,
    label: Label = "",
    group: Group = "",
    accept: Accept = None,
    algorithms: Annotated[str, typer.Option(help="Algorithms, with commas.", rich_help_panel=_METHOD)] = DEFAULT,
    learners: Annotated[
        str,
        typer.Option(
            help="Learners, with commas: all silos train the same one.",
            rich_help_panel=_METHOD,
        ),
    ] = "logistic-regression",
    repeats: Annotated[
        int | None, typer.Option(help="Seeds, the same for all.", show_default="10", rich_help_panel=_METHOD)
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Most rounds of each run.", show_default="10", rich_help_panel=_METHOD)
    ] = None,
    seed: Annotated[int, typer.Option(help="The first seed.", rich_help_panel=_METHOD)] = 0,
    test: Annotated[
        Test | None,
        typer.Option(
            help="The records to score with: 'own' of each silo, or 'pooled'.",
            show_default="own, where silos have some",
            rich_help_panel=_METHOD,
        ),
    ] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the runs, new or of this comparison, to go on with.",
            show_default="runs/STUDY-TIME",
            rich_help_panel=PANEL,
        ),
    ] = None,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Rank algorithms and learners on your data, and say which differences mean nothing.

    For example: fedct compare --data-dir wards --label ill --algorithms fedct,fedct-dawid-skene --learners
    random-forest,logistic-regression --repeats 10. All see the same splits. Or name folders of runs that are there.
    """
    out = Output(as_json=json_)
    if runs:
        refuse_options(context, allowed={"runs", "test", "json_"}, why="on runs that are there")
        several = [[*Repeats(path).runs] if seeds_in(path) else [read_run(path)] for path in runs]
        _show(out, compared(groups_of([run for found in several for run in found]), test=test))
        return
    os.environ.setdefault(LEARNER_FOLDER, str(Path.cwd()))
    # As on the engine, silos have a thread each.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    named = overrides(set_ or [])
    if ours := next((key for key in named if key in _INSTEAD), None):
        raise ConfigError(f"{ours} cannot be set here: {_INSTEAD[ours]}")
    settings = {**data_settings(context, data, data_dir, label, group, accept), **only(rounds), **named}
    pairs = pairs_of(_names(algorithms), _names(learners))
    seeds = planned_seeds(_REPEATS if repeats is None else repeats, seed)
    folder = (run_dir or dated(Path("runs"), f"{settings['study']}-compared")).resolve()
    if not any(map(seeds_in, folder.glob("*"))):
        check_new(folder)
    out.say(f"{count(len(pairs), 'method')}, {count(len(seeds), 'seed')} each, in {from_here(folder)}")
    groups: dict[str, list[Run]] = {}
    left_out: list[LeftOut] = []
    trained: set[str] = set()
    for pair in pairs:
        path, chosen = folder / pair.folder, settings_for(settings, pair, alone=pair.learner not in trained)
        if begun := seeds_in(path):
            every = RunConfig.from_flower({**chosen, "seed": begun[0]}).to_flower()
            if settings_of(seed_folder(path, begun[0])).items() - every.items():
                raise ConfigError(f"{path} holds runs with other settings: choose another --run-dir")
        # A learner named by an earlier folder is imported only if this command names it too.
        begin = partial(run_one, chosen, "loopback", named, [package(name) for name in named_in(chosen)])
        try:
            with bar(pair.folder, len(seeds)) as advance:
                run_seeds(path, seeds, begin, lambda run: advance(1), at_once("loopback"))
            groups[str(pair)] = [read_run(seed_folder(path, seed)) for seed in seeds]
            trained.add(pair.learner)
        except FedctError as error:
            left_out.append(LeftOut(str(pair), str(error)))
            if len(left_out) == len(pairs):
                raise type(error)(f"no method can be run; {left_out[0].name}: {left_out[0].reason}") from None
        except BaseException:
            out.say(f"stopped; to go on: the same command with --run-dir {in_shell(from_here(folder))}")
            raise
    _show(out, compared(groups, left_out, test))
    out.say(f"runs: {from_here(folder)}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _show(out: Output, found: Comparison) -> None:
    document: dict[str, Any] = {
        "measure": found.measure,
        "test": found.test,
        "seeds": list(found.seeds),
        "methods": [
            {**one._asdict(), "differs": one.differs, "rounds": found.rounds.get(one.name)} for one in found.standings
        ],
        "left_out": [one._asdict() for one in found.left_out],
        "verdict": verdict(found.standings),
    }
    out.show(document, "", found._table())
    for one in found.left_out:
        out.warn(f"left out: {one.name}: {one.reason}")
    out.say(verdict(found.standings))
