"""``fedct coordinator stop``: end a run that is under way, for instance one whose terminal is gone."""

from typing import Annotated

import typer
from rich.console import Console

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.flower import SuperLink


def stop(
    folder: Folder,
    run_id: Annotated[
        int | None, typer.Argument(help="Flower's number of the run.", show_default="all that are under way")
    ] = None,
) -> None:
    """End a run that is under way. It can be gone on with later: fedct coordinator run FOLDER --resume RUN_FOLDER."""
    console = Console(highlight=False, soft_wrap=True)
    coordinator = CoordinatorFolder.open(folder)
    with SuperLink(coordinator.address(), coordinator.ca) as superlink:
        runs = superlink.unfinished() if run_id is None else [run_id]
        for number in runs:
            superlink.stop(number)
            console.print(f"run {number} is stopped")
    if not runs:
        console.print("no run is under way")
