"""``fedct audit``: attacks on a run, and how well they work."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markdown import Markdown

from fedct_flwr import audit as auditing
from fedct_flwr import datasets
from fedct_flwr.cli.output import PANEL, Json, Output
from fedct_flwr.cli.run_options import Package
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.files import write_atomically
from fedct_flwr.learners.catalog import LEARNER_FOLDER, check_from_file
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.text.console import progress as bar_of
from fedct_flwr.text.printable import from_here, json_text, printable
from fedct_flwr.types import ConfigError, DataError, RunError

_ATTACKING: Final = "running it again with members held out"

# The defaults of ``audit.How``, which takes seconds to import.
_REFITS, _CANDIDATES, _MINUTES = 8, 200, 10.0


def audit(
    run: Annotated[Path, typer.Argument(help="A simulation's run folder.")],
    refits: Annotated[int, typer.Option(help="Repeat the run so often, with other members each time.")] = _REFITS,
    candidates: Annotated[int, typer.Option(help="Attack about this many records over all silos.")] = _CANDIDATES,
    minutes: Annotated[float, typer.Option(help="Begin no refit after this time, from the third on.")] = _MINUTES,
    seed: Annotated[int, typer.Option(help="Seed of members and refits.")] = 0,
    package: Package = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the page there.", show_default="audit.md in the run's folder", rich_help_panel=PANEL),
    ] = None,
    json_: Json = False,
) -> None:
    """Attack a run: tell from what travelled which records a silo trained on, and prove how much epsilon it spent.

    The run is repeated in this process with random members, and nothing of it is changed. Its folder gets audit.md and
    audit.json, which fedct privacy-sheet then quotes.
    """
    if package:
        os.environ.setdefault(LEARNER_FOLDER, str(Path.cwd()))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder = RunFolder(run.resolve())
    if not folder.exists():
        raise RunError(f"{run} is no run folder: name one with a config.json")
    if output and not output.absolute().parent.is_dir():
        raise DataError(f"there is no folder {output.parent}: make it, or choose another file")
    config = RunConfig.from_flower({**folder.settings(), "run-dir": str(folder.path)})
    check_from_file(config.learner_names, package or (), folder.path)
    if config.data == STUDY:
        raise ConfigError(
            f"the silos of the run in {run} are real and their records are at the silos: ask each for "
            "'fedct silo audit'"
        )
    how = auditing.How(refits, candidates, minutes, seed)
    dataset, out = datasets.load(config), Output(as_json=json_)
    found = auditing.attack(config, dataset, how, progress=partial(bar_of, what=_ATTACKING))
    text, facts = auditing.page(config.study, found), auditing.document(config.study, found)
    target = output or folder.path / auditing.PAGE
    write_atomically(target, printable(text, keep="\n").encode())
    write_atomically(folder.path / auditing.FILE, json_text(facts).encode())
    out.show(facts, Markdown(printable(auditing.page(config.study, found, short=True), keep="\n")))
    out.say(f"audit: {from_here(target)}")
