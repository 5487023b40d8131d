"""``fedct silo start``: the agent, in the foreground."""

import signal

from fedct_flwr.cli.output import Log, Output
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.agent import start_agent
from fedct_flwr.hospital.approval import approving_digests, current
from fedct_flwr.hospital.latest_state import open_log
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.hospital.log_line import log_line
from fedct_flwr.hospital.next_approval import settle
from fedct_flwr.types import ConfigError


def start(folder: Folder = None, folder_option: FolderOption = None, log: Log = "text") -> None:
    """Run the agent: it takes questions from its SuperNode, trains, and lets approved labels out, each one logged.

    Stops cleanly on SIGTERM, SIGINT and SIGHUP, also in the middle of training.
    """
    file = silo_file(folder, folder_option)
    config = SiloConfig.read_toml(file)
    # Only this of what has no effect: what else was approved before goes on.
    config.check_promised()
    check_approved(config)
    out = Output()

    def say(sentence: str) -> None:
        out.say(log_line(sentence))

    if hasattr(signal, "SIGHUP"):  # not on Windows
        # A terminal that is closed ends it as well as anybody who asks it to end.
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    start_agent(file, say)


def check_approved(config: SiloConfig) -> None:
    """Raise ConfigError unless the study is approved as it is now, RunError if the log cannot be written or trusted."""
    # Opening it proves the log, and that no other agent is at work.
    with open_log(config) as log:
        settle(log, config.state)
        approved = current(read_entries(config.state))
    if approved is None:
        raise ConfigError("nothing is approved: read what would leave, and allow it, with 'fedct silo approve'")
    if approved not in approving_digests(config, read_study(config.study)):
        raise ConfigError(
            "the study or the settings have changed since they were approved: read what would leave now, and allow it, "
            "with 'fedct silo approve'"
        )
