"""``fedct silo answer``: the end of an air gap where the records are."""

from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import FolderOption, silo_file
from fedct_flwr.cli.silo.start import check_approved
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital.carried_answer import answer_file
from fedct_flwr.types import ConfigError


def answer(
    question: Annotated[Path, typer.Argument(help="A sealed question from 'fedct silo carry'.", show_default=False)],
    folder: FolderOption = None,
    output: Annotated[
        Path | None, typer.Option(help="New file for the answer.", show_default="answer-... where the question is")
    ] = None,
) -> None:
    """Answer one question that was carried here: same approval, gate, limits and log as with a connection.

    Exit code 0 if labels are in the answer, 1 if it is a refusal. The same question gives the same answer again.
    """
    file = silo_file(None, folder)
    config = SiloConfig.read_toml(file)
    config.check_promised()
    path = output or question.with_name(f"answer-{question.name.removeprefix('question-')}")
    if path.exists():
        raise ConfigError(f"{path} exists: carry it back, or name another file with --output")
    check_approved(config)
    out = Output()
    answered = answer_file(file, question, path, out.say)
    if path.exists():
        out.say(f"the answer{'' if answered else ', a refusal,'} is in {path}: carry it back")
    if not answered:
        raise typer.Exit(1)
