"""``fedct simulate``: a whole federation on this machine, from data to a table."""

import math
import re
import shutil
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from fedct_flwr import datasets
from fedct_flwr.algorithms import build_consensus
from fedct_flwr.cli import scoreboard
from fedct_flwr.cli.engine import run_on_engine
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset
from fedct_flwr.learners.build import build_learner
from fedct_flwr.run_folder import RunFolder, check_new
from fedct_flwr.types import ConfigError, RunError


def simulate(
    data: Annotated[str, typer.Option(help="Data set by name.")] = "heart-disease",
    data_dir: Annotated[
        Path | None, typer.Option(help="Instead: folder with public.csv and one CSV or Parquet file per silo.")
    ] = None,
    label: Annotated[str, typer.Option(help="The label column of the files in --data-dir.")] = "",
    learner: Annotated[
        str, typer.Option(help="Short name or import path of a classifier; several with commas, one for each silo.")
    ] = "logistic-regression",
    learner_params: Annotated[str, typer.Option(help="The learners' parameters as JSON.")] = "{}",
    algorithm: Annotated[str, typer.Option(help="fedct or fedct-qualified.")] = "fedct",
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
    # Learners of one's own are looked for where the command is given, as Python itself does.
    sys.path.insert(0, str(Path.cwd()))
    started = time.monotonic()
    if resume:
        if run_dir:
            raise ConfigError("--run-dir is for a new run: leave it out with --resume")
        # The run in the folder knows its settings; only how long it may go on is ours to say.
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
    path = (resume or run_dir or Path("runs") / f"{chosen['study']}-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    if not resume:
        check_new(path)
    config = RunConfig.from_flower({**chosen, "run-dir": str(path)})
    dataset = datasets.load(config)
    _check(config, dataset)

    records = sum(silo.private.size for silo in dataset.silos)
    console.print(f"[bold]{config.study}[/]: {escape(', '.join(silo.name for silo in dataset.silos))}")
    console.print(f"{records} private records stay at their silos; {len(dataset.public)} public examples, unlabeled\n")
    folder = RunFolder(path)
    _run(console, config, dataset, folder)
    with console.status("training the baselines: every silo alone, and all data in one place"):
        rows = scoreboard.score(config, dataset, folder)
    scoreboard.save(rows, path / "scores.json")
    console.print()
    console.print(scoreboard.table(rows))
    lost = [row.silo for row in rows if math.isnan(row.pooled["fedct"])]
    if lost and config.save_models:
        console.print(f"[yellow]no model was kept of {escape(', '.join(lost))}: see {path / 'flower.log'}[/]")
    _print_end(console, folder, time.monotonic() - started)


def _only(rounds: int | None) -> dict[str, int]:
    return {} if rounds is None else {"num-server-rounds": rounds}


def _check(config: RunConfig, dataset: FederatedDataset) -> None:
    """Say now what is wrong with the settings, before six processes say it in a minute."""
    build_consensus(config, len(dataset.schema.classes))
    config.check_fits([silo.name for silo in dataset.silos], len(dataset.public))
    for position, silo in enumerate(dataset.silos):
        build_learner(config, dataset, position, silo.private.X)


def _run(console: Console, config: RunConfig, dataset: FederatedDataset, folder: RunFolder) -> None:
    """Run on the engine, showing each round as it ends. Raises RunError with the reason that the run folder gives."""
    log = Path(tempfile.mkdtemp(prefix="fedct-log-")) / "flower.log"
    try:
        with console.status("starting Flower's simulation engine") as status:
            run_on_engine(config.to_flower(), len(dataset.silos), log, _Watch(console, folder, status))
    except RunError as error:
        reason = _reason(folder, log) or str(error)
        raise RunError(f"{reason} (log: {_keep(log, folder)})") from None
    _keep(log, folder)


def _keep(log: Path, folder: RunFolder) -> Path:
    """Move Flower's log to the run folder; where there is no room it stays where it is. Returns where it is."""
    kept = folder.path / log.name
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
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

    def __call__(self) -> None:
        if not (self._folder.path / "config.json").exists():
            return
        for entry in self._folder.rounds():
            if entry["round"] <= self._seen:
                continue
            self._seen = entry["round"]
            sent = [silo["bytes_sent"] for silo in entry["silos"].values()]
            self._console.print(
                f"round {entry['round']:>2}   {len(sent)} silos sent {fmean(sent):,.0f} bytes each, "
                f"{entry['agreement']:.1%} agree, {entry['changed']:,} labels changed"
            )
            for silo, reason in entry["absent"].items():
                self._console.print(f"           [yellow]without {escape(silo)}: {reason}[/]")
        self._status.update(f"round {self._seen + 1}: silos train and label the public set")


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
        if key == "resume":
            raise ConfigError("resume is no key to set: use --resume with the folder of the run")
        try:
            overrides[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            overrides[key] = text
    return overrides


def _reason(folder: RunFolder, log: Path) -> str | None:
    """What the coordinator said last: in the run folder, or in the log if that could not be written."""
    try:
        return str(folder.read_json("result.json")["reason"])
    except (RunError, KeyError):
        said = re.findall(r"ERROR.{0,8}: +(cannot .+)", log.read_text("utf-8", errors="replace"))
        return said[-1] if said else None


def _print_end(console: Console, folder: RunFolder, seconds: float) -> None:
    rounds = folder.rounds()
    fixed = next((entry["round"] for entry in rounds if entry["fixed_point"]), None)
    end = f"fixed point in round {fixed}" if fixed else f"no fixed point after {len(rounds)} rounds"
    console.print(f"{end}, {seconds:.0f} s; all that left a silo are labels of public examples")
    here = Path.cwd()
    shown = folder.path.relative_to(here) if folder.path.is_relative_to(here) else folder.path
    console.print(f"run folder: {shown}", soft_wrap=True)
