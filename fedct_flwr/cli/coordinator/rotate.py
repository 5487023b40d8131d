"""``fedct coordinator rotate``: new keys and authorities, in two steps between which the old and the new are good."""

import shutil
from typing import Annotated

import typer

from fedct_flwr.cli.certificates import create_authority, create_server_certificate, hosts_of, trust_all
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.invite import invited
from fedct_flwr.cli.coordinator.register import admit, check_not_former, named_keys, node_key, nodes_of
from fedct_flwr.cli.output import Output
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
    out, coordinator = Output(), CoordinatorFolder.open(folder)
    if bool(keys) == authorities:
        raise ConfigError("give NAME=NODE.KEY.PUB to admit a silo's new key, NAME to end the old one, or --authorities")
    if authorities:
        _authorities(coordinator, in_shell(folder), out, yes=yes)
        return
    given = keys or []
    new, kept = named_keys([item for item in given if "=" in item]), coordinator.keys()
    finished = dict.fromkeys(item for item in given if "=" not in item)
    for name in (*new, *finished):
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
            again = f"fedct coordinator rotate {in_shell(folder)} {name}"
            out.say(f"{name} may use both keys now; once it uses the new one: {again}")
        for name in finished:
            current, former, _ = nodes_of(coordinator)
            node, old = current[name], former.get(name, [])
            if old and (node is None or not node.online):
                raise RunError(f"{name} is not online with its new key, so the old one stays: restart its SuperNode")
            for one in old:
                superlink.unregister(one.node_id)
            out.say(f"{name} has one key" if old else f"{name} had one key already")


def _authorities(folder: CoordinatorFolder, given: str, out: Output, *, yes: bool) -> None:
    """The first step, or the second where the first was done."""
    if not folder.next_ca.exists():
        _begin(folder)
        out.say("New authorities are made, and both the old and the new are good. Start the coordinator again.")
        for name in invited(folder):
            out.say(f"Then: fedct coordinator invite {given} {name} --again")
        out.say(f"Once all silos have taken it (fedct silo renew): fedct coordinator rotate {given} --authorities")
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
    clients, made = (folder.ca.with_name(f"{name}.new.crt") for name in ("clients", "ca"))
    create_authority(clients, clients.with_suffix(".key"), "fedct silos")
    trust_all(folder.clients_ca, [clients, folder.clients_ca])
    clients.with_suffix(".key").replace(folder.clients_key)
    create_authority(made, folder.next_ca_key)
    trust_all(folder.ca, [folder.ca, made])
    # Last: where it is, the first step is done.
    made.replace(folder.next_ca)


def _finish(folder: CoordinatorFolder) -> None:
    # Unless a crash came after that: then this was done.
    if folder.next_ca_key.exists():
        hosts, key = hosts_of(folder.server_certificate), folder.next_ca_key
        create_server_certificate(folder.server_certificate, folder.server_key, hosts, folder.next_ca, key)
        key.replace(folder.ca_key)
    trust_all(folder.ca, [folder.next_ca])
    clients = folder.ca.with_name("clients.new.crt")
    if clients.exists():
        clients.replace(folder.clients_ca)
    folder.next_ca.unlink()
