"""``fedct silo rotate``: a new key for the silo's SuperNode."""

import os

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital.keys import create_node_key
from fedct_flwr.text.printable import from_here, in_shell
from fedct_flwr.types import ConfigError


def rotate(folder: Folder = None, folder_option: FolderOption = None) -> None:
    """Make a new key for the SuperNode, by which the coordinator knows this silo. The old one is kept as *.former.

    A SuperNode that is running goes on with the old key. Start it again once the coordinator has admitted the new one.
    """
    key = SiloConfig.read_toml(silo_file(folder, folder_option)).connection.node_key
    public, new = key.with_name(f"{key.name}.pub"), key.with_name(f"{key.name}.new")
    for path in (key, public):
        if not path.is_file():
            raise ConfigError(f"there is no key {path}: put back the one that was there")
    for path in (new, new.with_name(f"{new.name}.pub")):
        path.unlink(missing_ok=True)
    create_node_key(new)
    for path in (key, public):
        path.with_name(f"{path.name}.former").unlink(missing_ok=True)
        os.link(path, path.with_name(f"{path.name}.former"))
    new.with_name(f"{new.name}.pub").replace(public)
    new.replace(key)
    out = Output()
    out.say(f"Send to the coordinator: {in_shell(from_here(public))} (public, no secret)")
    out.say("Once it says that both keys are good, start the SuperNode again: fedct silo connect")
