"""``fedct simulate``: a whole federation on this machine, from data to a table."""

import math
import os
import re
import shutil
import tempfile
import time
import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from fedct_flwr import datasets
from fedct_flwr.algorithms import Algorithm, find_algorithm
from fedct_flwr.cli import scoreboard
from fedct_flwr.cli.engine import check_interpreter, run_on_engine
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset
from fedct_flwr.learners.catalog import LEARNER_FOLDER
from fedct_flwr.run_folder import RUN_FAILED, RunFolder, check_new
from fedct_flwr.types import ConfigError, RunError


def simulate(
    context: typer.Context,
    data: Annotated[str, typer.Option(help="Data set by name.")] = "heart-disease",
    data_dir: Annotated[
        Path | None, typer.Option(help="Instead: folder with public.csv and one CSV or Parquet file per silo.")
    ] = None,
    label: Annotated[str, typer.Option(help="The label column of the files in --data-dir.")] = "",
    learner: Annotated[
        str, typer.Option(help="Short name or import path of a classifier; several with commas, one for each silo.")
    ] = "logistic-regression",
    learner_params: Annotated[str, typer.Option(help="The learners' parameters as JSON.")] = "{}",
    algorithm: Annotated[
        str, typer.Option(help="fedct, fedct-qualified, or fedavg (a baseline for networks).")
    ] = "fedct",
    rounds: Annotated[
        int | None,
        typer.Option(help="Most rounds to run; fewer if the consensus reaches a fixed point.", show_default="10"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    run_dir: Annotated[
        Path | None, typer.Option(help="New folder for the run.", show_default="runs/STUDY-TIME")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of an unfinished run to go on with.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Any other run-config key, as KEY=VALUE.")] = None,
) -> None:
    """Simulate a federation on Flower's engine: silos co-train, and a table tells what each has gained."""
    console = Console(highlight=False)
    # Learners of one's own are looked for where the command is given, here and by the silos' processes.
    os.environ.setdefault(LEARNER_FOLDER, str(Path.cwd()))
    started = time.monotonic()
    if resume:
        # The run in the folder knows its settings; only how long it may go on is ours to say.
        _refuse_options(context, allowed={"resume", "rounds"}, why="with --resume")
        stored = RunFolder(resume.resolve()).settings()
        chosen = {**stored, **_only(rounds), "resume": True}
    else:
        chosen = {
            "study": _study_name(data_dir) if data_dir else data,
            "data": "files" if data_dir else data,
            "data-dir": str(data_dir.resolve()) if data_dir else "",
            "label-column": label,
            "learner": learner,
            "learner-params": learner_params,
            "algorithm": algorithm,
            "seed": seed,
            **_only(rounds),
            **_overrides(set_ or []),
        }
        if data_dir and not chosen["label-column"]:
            raise ConfigError("--data-dir needs --label, the name of the label column in the silos' files")
        if label and not data_dir:
            raise ConfigError("--label is for the files in --data-dir: add that, or leave --label out")
        if data_dir:
            _refuse_options(context, allowed=set(context.params) - {"data"}, why="with --data-dir")
    path = (resume or run_dir or Path("runs") / f"{chosen['study']}-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    if not resume:
        check_new(path)
    config = RunConfig.from_flower({**chosen, "run-dir": str(path)})
    dataset = datasets.load(config)
    how = _check(config, dataset)

    records = sum(silo.private.size for silo in dataset.silos)
    console.print(f"[bold]{config.study}[/]: {escape(', '.join(silo.name for silo in dataset.silos))}")
    console.print(f"{records} private records stay at their silos; {len(dataset.public)} public examples, unlabeled\n")
    folder = RunFolder(path)
    check_interpreter()
    _run(console, config, dataset, folder)
    with console.status("training the baselines: every silo alone, and all data in one place"):
        rows = scoreboard.score(config, how, dataset, folder)
    console.print()
    console.print(scoreboard.table(rows, how.title))
    _print_gaps(console, config, folder, rows)
    _print_end(console, config, how, folder, time.monotonic() - started)
    scoreboard.save(rows, path / "scores.json")


def _refuse_options(context: typer.Context, allowed: Collection[str], why: str) -> None:
    """Raise ConfigError if an option was given that would have no effect."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source and source.name == "COMMANDLINE" and parameter.name not in allowed:
            raise ConfigError(f"{parameter.opts[0]} has no effect {why}: leave it out")


def _only(rounds: int | None) -> dict[str, int]:
    return {} if rounds is None else {"num-server-rounds": rounds}


def _check(config: RunConfig, dataset: FederatedDataset) -> Algorithm:
    """Say now what is wrong with the settings, before six processes say it in a minute."""
    algorithm = find_algorithm(config)
    config.check_fits([silo.name for silo in dataset.silos], len(dataset.public))
    algorithm.check(config, dataset)
    return algorithm


def _run(console: Console, config: RunConfig, dataset: FederatedDataset, folder: RunFolder) -> None:
    """Run on the engine, showing each round as it ends. Raises RunError with the reason that the run folder gives."""
    log = Path(tempfile.mkdtemp(prefix="fedct-log-")) / "flower.log"
    status = console.status("starting Flower's simulation engine")
    watch = _Watch(console, folder, status)
    try:
        with status:
            run_on_engine(config.to_flower(), len(dataset.silos), log, watch)
        if folder.read_json("result.json").get("status") != "completed":
            raise RunError("the run failed")
    except RunError as error:
        reason = _reason(folder if watch.is_over else None, log) or str(error)
        raise RunError(f"{reason} (log: {_keep(log, folder)})") from None
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


class _Watch:
    """Prints each round as soon as the run folder has it."""

    def __init__(self, console: Console, folder: RunFolder, status: Status) -> None:
        self._console, self._folder, self._status = console, folder, status
        self._seen = max((entry["round"] for entry in folder.rounds()), default=0)
        # That of an earlier end, until the coordinator that resumes the run takes it away.
        self._old_end = folder.ended_at()

    @property
    def is_over(self) -> bool:
        """Whether the coordinator has said how the run ended."""
        return self._folder.ended_at() not in (None, self._old_end)

    def __call__(self) -> bool:
        """Print the rounds that are new; returns whether the run is over."""
        if not self._folder.exists():
            return False
        for entry in self._folder.rounds():
            if entry["round"] <= self._seen:
                continue
            self._seen = entry["round"]
            sent = [silo["bytes_sent"] for silo in entry["silos"].values()]
            line = f"round {entry['round']:>2}   {len(sent)} silos sent {fmean(sent):,.0f} bytes each"
            if "agreement" in entry:  # where silos share labels
                line += f", {entry['agreement']:.1%} agree, {entry['changed']:,} labels changed"
            self._console.print(line)
            for silo, reason in entry["absent"].items():
                self._console.print(f"           [yellow]without {escape(silo)}: {reason}[/]")
        self._status.update(f"round {self._seen + 1}: silos are at work")
        return self.is_over


def _study_name(folder: Path) -> str:
    """What a study's name may hold of the folder's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("._-")[:64] or "files"


def _overrides(items: list[str]) -> dict[str, Any]:
    """``KEY=VALUE`` with a TOML value; what is no TOML is text. Raises ConfigError."""
    overrides: dict[str, Any] = {}
    for item in items:
        key, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise ConfigError(f"--set {item!r}: write KEY=VALUE")
        if key in ("resume", "run-dir"):
            raise ConfigError(f"{key} is no key to set: use --{key} with the folder of the run")
        try:
            overrides[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            overrides[key] = text
    return overrides


def _reason(folder: RunFolder | None, log: Path) -> str | None:
    """What the coordinator said last: in the run folder, or in the log if it could not or may not write there."""
    try:
        return str(folder.read_json("result.json")["reason"]) if folder else _last_words(log)
    except (RunError, KeyError):
        return _last_words(log)


def _last_words(log: Path) -> str | None:
    said = re.findall(rf"{RUN_FAILED}: (.+)", log.read_text("utf-8", errors="replace"))
    return said[-1] if said else None


def _print_gaps(console: Console, config: RunConfig, folder: RunFolder, rows: Sequence[scoreboard.SiloScores]) -> None:
    """Say why there is no score where there is none."""
    last = folder.rounds()[-1]["silos"]
    for row in rows:
        silo = escape(row.silo)
        if row.silo not in last:
            console.print(f"[yellow]{silo} had no part in the last round: no scores[/]")
        elif config.save_models and math.isnan(row.pooled["federated"]):
            console.print(f"[yellow]no model was kept of {silo}: see {escape(str(folder.path / 'flower.log'))}[/]")
        if row.silo in last and math.isnan(row.pooled["local"]):
            console.print(f"[yellow]the learner of {silo} could not be trained alone[/]")


def _print_end(console: Console, config: RunConfig, algorithm: Algorithm, folder: RunFolder, seconds: float) -> None:
    rounds, result = folder.rounds(), folder.read_json("result.json")
    end = f"{len(rounds)} rounds"
    if "fixed_point" in result:
        fixed = result["fixed_point"]
        end = f"fixed point in round {fixed}" if fixed else f"no fixed point after {end}"
    left = algorithm.leaves + (" and test scores, as report-scores asks" if config.report_scores else "")
    console.print(f"{end}, {seconds:.0f} s; all that left a silo are {left}")
    here = Path.cwd()
    shown = folder.path.relative_to(here) if folder.path.is_relative_to(here) else folder.path
    console.print(f"run folder: {shown}", soft_wrap=True)
