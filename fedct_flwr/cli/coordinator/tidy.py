"""``fedct coordinator tidy``: delete old runs from the SuperLink's database."""

from typing import Annotated

import typer

from fedct_flwr.cli.coordinator.backup import DATABASE
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.retention import forget
from fedct_flwr.cli.output import Output
from fedct_flwr.types import ConfigError


def tidy(
    folder: Folder,
    days: Annotated[
        int | None,
        typer.Option(min=1, help="Delete runs that ended more days ago.", show_default="keep-days in coordinator.toml"),
    ] = None,
) -> None:
    """Delete runs that ended long ago from the SuperLink's database, while it is stopped.

    Their log, settings and bundle of code go. What stays: the silos' nodes and keys, runs that have not ended, and all
    folders of runs, with results and models. fedct coordinator start does the same.
    """
    coordinator = CoordinatorFolder.open(folder)
    kept = days or coordinator.config().keep_days
    if not kept:
        raise ConfigError(
            f"{coordinator.settings} keeps all runs: set keep-days there to a number of days, or say --days"
        )
    forgotten = forget(coordinator.state / DATABASE, kept)
    Output().say(forgotten.sentence(kept))
