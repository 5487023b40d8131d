"""``fedct coordinator register`` and ``unregister``: admit silos' nodes to the running SuperLink, and let them go."""

import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import typer
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.invite import invited
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.config.settings import check_name
from fedct_flwr.flower.command import Node, SuperLink, Unreachable, list_nodes
from fedct_flwr.hospital.keys import loaded
from fedct_flwr.text.printable import suggest
from fedct_flwr.types import ConfigError, RunError

_WAIT_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 1.0


def register(
    folder: Folder,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=NODE.KEY.PUB]...",
            help="A silo's name and its node's public key; kept as silos/NAME.pub.",
            show_default="all in silos/",
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Admit the silos' nodes to the running SuperLink, by their public keys.

    A key that is registered already is fine, but not one key under two names. A SuperLink that has just been
    started is waited for, five minutes at most.
    """
    out, registered = Output(as_json=json_), []
    coordinator = CoordinatorFolder.open(folder)
    named, kept = named_keys(keys or []), coordinator.keys()
    names: dict[bytes, str] = {}
    for name, path in (*kept.items(), *named.items()):
        key = node_key(path)
        if name in named and name in kept and key != node_key(kept[name]):
            raise ConfigError(
                f"{kept[name]} holds another key: 'fedct coordinator unregister' that one first, or take another name "
                "if this is another hospital"
            )
        if (other := names.setdefault(key, name)) != name:
            # To the SuperLink they would be one node.
            raise ConfigError(
                f"{name} has the key that {other} has, and a node is one silo: ask the two for their own "
                "connection/node.key.pub, or take the wrong name away"
            )
    for name, path in named.items():
        if name not in kept:
            shutil.copyfile(path, coordinator.silos / f"{name}.pub")
    chosen = {name: path for name, path in coordinator.keys().items() if not named or name in named}
    if not chosen:
        raise ConfigError(f"there is no key in {coordinator.silos}: put each silo's node.key.pub there as NAME.pub")
    with SuperLink(coordinator.address(), coordinator.ca) as superlink:
        for name, path in chosen.items():
            with out.doing(f"asking the SuperLink to admit {name}"):
                new = admit(superlink, path, name)
            if not new and nodes_of(coordinator)[0][name] is None:
                if name not in kept:
                    path.unlink()
                raise RunError(
                    f"the key of {name} was unregistered, and Flower never admits it again: ask {name} to move "
                    "connection/node.key and node.key.pub away, to join again, and to send the new key"
                )
            # Flower does not tell under which name.
            out.say(f"{name} is registered" if new else f"the key of {name} is registered already")
            registered.append({"silo": name, "new": new})
    out.show({"registered": registered})


def named_keys(items: Iterable[str]) -> dict[str, Path]:
    """The keys of ``NAME=FILE``, by name. Raises ConfigError for what is no such thing, or a name that comes twice."""
    found: dict[str, Path] = {}
    for item in items:
        name, equals, path = item.partition("=")
        if not (name and equals):
            raise ConfigError(f"{item!r}: write NAME=FILE, the silo's name and the public key of its node")
        check_name(name)
        if name in found:
            raise ConfigError(f"{name} is named twice, with {found[name]} and with {path}: a silo has one key")
        found[name] = Path(path)
    return found


def node_key(path: Path) -> bytes:
    """The key itself, without a comment. Raises ConfigError for a file that Flower would not take."""
    wrong = "is no node's public key: ask the silo for its connection/node.key.pub"
    key: ec.EllipticCurvePublicKey = loaded(path, load_ssh_public_key, ec.EllipticCurvePublicKey, wrong)
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def admit(superlink: SuperLink, key: Path, name: str) -> bool:
    """Register a key at a SuperLink, which is waited for. Returns whether it is new."""
    end = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            return superlink.register(key, name)
        except Unreachable:
            if time.monotonic() > end:
                raise
            time.sleep(_POLL_SECONDS)


def nodes_of(folder: CoordinatorFolder) -> tuple[dict[str, Node | None], int]:
    """Each silo's node, None where it is not registered; how many nodes belong to no silo.

    Raises NoAnswer, RunError or ConfigError.
    """
    nodes = {node.key: node for node in list_nodes(folder.address(), folder.ca)}
    current = {name: nodes.pop(node_key(path), None) for name, path in folder.keys().items()}
    return current, len(nodes)


def unregister(
    folder: Folder,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Silos that depart, or get a new key.")],
    json_: Json = False,
) -> None:
    """Let silos depart: the SuperLink no longer answers their keys, and the next run does not wait for them.

    Their names become free: invite a silo again under its name. It needs a new key, as an old one is never admitted
    again.
    """
    out = Output(as_json=json_)
    coordinator = CoordinatorFolder.open(folder)
    known = invited(coordinator)
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no silo {name!r}: {suggest(name, known)}" if known else "there are no silos")
    current, _ = nodes_of(coordinator)
    keys = coordinator.keys()
    with SuperLink(coordinator.address(), coordinator.ca) as superlink:
        for name in dict.fromkeys(names):
            if node := current.get(name):
                superlink.unregister(node.node_id)
            # After the SuperLink: what is here says what is still to be done there.
            if name in keys:
                keys[name].unlink()
            shutil.rmtree(coordinator.kits / name, ignore_errors=True)
            (coordinator.invitations / f"{name}.zip").unlink(missing_ok=True)
            out.say(f"{name} has departed")
    out.show({"departed": list(dict.fromkeys(names))})
