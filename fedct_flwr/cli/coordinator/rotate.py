"""``fedct coordinator rotate``: new keys and authorities, in two steps between which the old and the new are good."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr.cli.certificates import create_authority, create_server_certificate, hosts_of, join_authorities
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.invite import invited
from fedct_flwr.cli.coordinator.register import admit, check_not_former, named_keys, node_key, nodes_of
from fedct_flwr.cli.output import Output
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.flower.command import SuperLink
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import ConfigError, RunError


def rotate(
    folder: Folder,
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME[=NODE.KEY.PUB]]...", help="A silo, with its new key in the first step."),
    ] = None,
    authorities: Annotated[
        bool, typer.Option("--authorities", help="The two authorities that sign certificates, instead of silos' keys.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Finish without being asked, for programs.")] = False,
) -> None:
    """Replace silos' keys, or the authorities, in two steps; in between the old and the new are good.

    Keys: NAME=NODE.KEY.PUB admits a silo's new key as well; NAME alone, once the new node was seen, ends the old one.
    Authorities: the first step makes new ones, and all silos need a new invitation; the second one, once all have taken
    it, ends the old ones. Start the coordinator again after each.
    """
    out = Output()
    coordinator = CoordinatorFolder.open(folder)
    if authorities:
        if keys:
            raise ConfigError("--authorities takes no silos: rotate their keys by another command")
        _authorities(coordinator, folder, out, yes=yes)
        return
    if not keys:
        raise ConfigError(
            "no silo is named: give NAME=NODE.KEY.PUB to admit its new key, NAME to end the old one, or --authorities"
        )
    new = named_keys([item for item in keys if "=" in item])
    kept = coordinator.keys()
    for name in [*new, *(item for item in keys if "=" not in item)]:
        if name not in kept:
            raise ConfigError(f"no key of {name!r} is in {coordinator.silos}: fedct coordinator register")
    with SuperLink(coordinator.address(), coordinator.ca) as superlink:
        for name, path in new.items():
            check_not_former(coordinator, path)
            if node_key(path) in map(node_key, kept.values()):
                raise ConfigError(f"{path} is registered already: ask {name} for its new connection/node.key.pub")
            admit(superlink, path, name)
            coordinator.retire(name)
            shutil.copyfile(path, coordinator.silos / f"{name}.pub")
            out.say(f"{name} may use both keys now; once it uses the new one: "
                    f"fedct coordinator rotate {in_shell(folder)} {name}")  # fmt: skip
        for name in dict.fromkeys(item for item in keys if "=" not in item):
            _end_former(coordinator, superlink, name, out)


def _end_former(folder: CoordinatorFolder, superlink: SuperLink, name: str, out: Output) -> None:
    current, former, _ = nodes_of(folder)
    node = current[name]
    if former.get(name) and (node is None or not node.online):
        raise RunError(f"{name} is not online with its new key, so the old one stays: it has to restart its SuperNode")
    for old in former.get(name, []):
        superlink.unregister(old.node_id)
    out.say(f"{name} has one key" if former.get(name) else f"{name} had one key already")


def _authorities(folder: CoordinatorFolder, given: Path, out: Output, *, yes: bool) -> None:
    """The first step, or the second where the first was done."""
    if not folder.next_ca.exists():
        _begin(folder)
        out.say("New authorities are made, and both the old and the new are good. Start the coordinator again.")
        for name in invited(folder):
            out.say(f"Then: fedct coordinator invite {in_shell(given)} {name} --again")
        out.say(
            f"Once all silos have taken it (fedct silo renew): fedct coordinator rotate {in_shell(given)} --authorities"
        )
        return
    if not yes and not typer.confirm("Have all silos taken their new invitations? Others are shut out from now on."):
        raise typer.Exit(1)
    _finish(folder)
    out.say("Neither the gateway nor the server uses the old authorities any more. Start the coordinator again.")
    out.say(
        "Silos still take the old authority's word for who the coordinator is: if its key may be in other hands, send "
        "new invitations (invite --again, fedct silo renew)"
    )
    out.say(f"Keep {in_shell(folder.ca_key)} offline, as only a new server certificate needs it")


def _begin(folder: CoordinatorFolder) -> None:
    """Silos' new certificates are of the new authority; the server keeps its own until all silos know both."""
    clients = folder.clients_ca.with_name("clients.new.crt")
    create_authority(clients, folder.clients_key.with_name("clients.new.key"), "fedct silos")
    join_authorities(folder.clients_ca, [clients, folder.clients_ca])
    write_atomically(folder.clients_key, folder.clients_key.with_name("clients.new.key").read_bytes())
    clients.unlink()
    folder.clients_key.with_name("clients.new.key").unlink()
    made = folder.next_ca.with_name("ca.new.crt")
    create_authority(made, folder.next_ca_key)
    join_authorities(folder.ca, [folder.ca, made])
    # Last: where it is, the first step is done.
    made.replace(folder.next_ca)


def _finish(folder: CoordinatorFolder) -> None:
    # Unless a crash came after that: then this was done.
    if folder.next_ca_key.exists():
        hosts, key = hosts_of(folder.server_certificate), folder.next_ca_key
        create_server_certificate(folder.server_certificate, folder.server_key, hosts, folder.next_ca, key)
        write_atomically(folder.ca_key, key.read_bytes())
    join_authorities(folder.ca, [folder.next_ca])
    # The new one stands first.
    join_authorities(folder.clients_ca, [folder.clients_ca], only_first=True)
    folder.next_ca_key.unlink(missing_ok=True)
    folder.next_ca.unlink()
