"""``fedct silo start`` and ``answer``: the agent, in the foreground, and for an air gap one answer by hand."""

from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr import hospital
from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config.silo import AppSilo, SiloConfig, SiloFolder
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.agent import start_agent
from fedct_flwr.hospital.app_code import load
from fedct_flwr.hospital.latest_state import NOT_APPROVED, Approval, approval_state, open_log
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.hospital.log_line import log_line, set_up_log
from fedct_flwr.types import ConfigError


def start(folder: Folder = None) -> None:
    """Run the agent: it takes questions from its SuperNode, trains, and lets approved answers out, each one logged.

    Stops cleanly on SIGTERM, SIGINT and SIGHUP, also in the middle of training.
    """
    file = silo_file(folder)
    config = SiloFolder.read_toml(file)
    if isinstance(config, SiloConfig):
        # Only this of what has no effect: what else was approved before goes on.
        config.check_promised()
    check_approved(config)
    set_up_log()
    out = Output()

    def say(sentence: str) -> None:
        out.say(log_line(sentence))

    start_agent(file, say)


def check_approved(config: SiloFolder) -> None:
    """Raise ConfigError unless the study, or the app, is approved as it is now.

    Raises RunError if the log cannot be written or trusted.
    """
    if isinstance(config, AppSilo):
        load(config.app.client)
    # Opening it proves the log, and that no other agent is at work.
    with open_log(config):
        study = read_study(config.study) if isinstance(config, SiloConfig) else None
        found = approval_state(config, study, list(read_entries(config.state)))
    if found is not Approval.APPROVED:
        raise ConfigError(NOT_APPROVED[found])


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
    file = silo_file(folder)
    config = SiloConfig.read_toml(file)
    config.check_promised()
    path = output or question.with_name(f"answer-{question.name.removeprefix('question-')}")
    if path.exists():
        raise ConfigError(f"{path} exists: carry it back, or name another file with --output")
    check_approved(config)
    out = Output()
    answered = hospital.answer_file(file, question, path, out.say)
    if path.exists():
        out.say(f"the answer{'' if answered else ', a refusal,'} is in {path}: carry it back")
    if not answered:
        raise typer.Exit(1)
