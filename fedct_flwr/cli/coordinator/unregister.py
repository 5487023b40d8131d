"""``fedct coordinator unregister``: silos that depart."""

import shutil
from typing import Annotated

import typer

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.invite import invited
from fedct_flwr.cli.coordinator.register import nodes_of
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.flower.command import SuperLink
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError


def unregister(
    folder: Folder,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Silos that depart.")],
    json_: Json = False,
) -> None:
    """Let silos depart: the SuperLink no longer answers their keys, and the next run does not wait for them.

    Their keys are kept in silos/former, so that nobody registers them again by mistake. Their names become free.
    """
    out = Output(as_json=json_)
    coordinator = CoordinatorFolder.open(folder)
    known = invited(coordinator)
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no silo {name!r}: {suggest(name, known)}" if known else "there are no silos")
    current, former, _ = nodes_of(coordinator)
    keys = coordinator.keys()
    with SuperLink(coordinator.address(), coordinator.ca) as superlink:
        for name in dict.fromkeys(names):
            for node in filter(None, [current.get(name), *former.get(name, [])]):
                superlink.unregister(node.node_id)
            # After the SuperLink: what is here says what is still to be done there.
            if name in keys:
                coordinator.retire(name)
            shutil.rmtree(coordinator.kits / name, ignore_errors=True)
            (coordinator.invitations / f"{name}.zip").unlink(missing_ok=True)
            out.say(f"{name} has departed")
    out.show({"departed": list(dict.fromkeys(names))})
