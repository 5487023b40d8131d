"""``fedct silo audit``: what the labels that this silo's settings allow would tell of its records."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markdown import Markdown

from fedct_flwr import audit as auditing
from fedct_flwr import silo
from fedct_flwr.cli.output import PANEL, Json, Output, check_new
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.files import write_atomically
from fedct_flwr.text.console import progress as bar_of
from fedct_flwr.text.printable import listed, printable
from fedct_flwr.types import ConfigError

_REHEARSING: Final = "training on random halves of the records"


def audit(
    folder: Folder = None,
    refits: Annotated[int, typer.Option(help="Train so often, on other records each time.")] = 16,
    candidates: Annotated[int, typer.Option(help="Attack about this many of the silo's records.")] = 200,
    minutes: Annotated[float, typer.Option(help="Begin no training after this time, from the third on.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Seed of who is in.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Also write the whole page there.", rich_help_panel=PANEL)] = None,
    json_: Json = False,
) -> None:
    """Rehearse attacks on this silo's labels before approval: on its own records and machine, and nothing leaves.

    The result names the silo's most exposed records: it is for the silo's eyes only, so do not e-mail it.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    check_new(output)
    config = SiloConfig.read_toml(silo_file(folder))
    if others := config.unattacked:
        raise ConfigError(
            f"the attack reads class labels alone, and kinds under [policy] has {listed(others)}: no result would be "
            "about these; rehearse settings with kinds = ['hard'], or rely on limits and promises"
        )
    study, out = read_study(config.study), Output(as_json=json_)
    progress = partial(bar_of, what=_REHEARSING)
    how = auditing.How(refits, candidates, minutes, seed)
    found = auditing.rehearse(silo.real_site(config, study), how, progress=progress)
    text = printable(auditing.page(study.name, found), keep="\n")
    if output:
        write_atomically(output, text.encode())
    out.show(auditing.document(study.name, found), Markdown(text))
    out.say("This names records of the silo: keep it here.")
