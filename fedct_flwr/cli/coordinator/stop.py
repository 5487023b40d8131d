"""``fedct coordinator stop``: end a run that is under way, for instance one whose terminal is gone."""

from typing import Annotated

import typer

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.flower.command import SuperLink


def stop(
    folder: Folder,
    run_id: Annotated[
        int | None, typer.Argument(help="Flower's number of the run.", show_default="all that are under way")
    ] = None,
    json_: Json = False,
) -> None:
    """End a run that is under way. It can be gone on with later: fedct coordinator run FOLDER --resume RUN_FOLDER."""
    out = Output(as_json=json_)
    coordinator = CoordinatorFolder.open(folder)
    with SuperLink(coordinator.address(), coordinator.ca) as superlink:
        runs = superlink.unfinished() if run_id is None else [run_id]
        for number in runs:
            superlink.stop(number)
            out.say(f"run {number} is stopped")
    if not runs:
        out.say("no run is under way")
    out.show({"stopped": runs})
