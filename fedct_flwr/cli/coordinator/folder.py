"""The coordinator's folder: where what lies in it."""

import tomllib
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import tomli_w
import typer

from fedct_flwr import drawing, labelers
from fedct_flwr.config.settings import name_fault
from fedct_flwr.config.study import CoordinatorConfig
from fedct_flwr.datasets.study_folder import STUDY_FILE, StudyFolder, read_study
from fedct_flwr.files import write_atomically
from fedct_flwr.types import ConfigError

CONNECTION: Final = "deployment"
"""Name of the SuperLink for ``flwr``."""

Folder: TypeAlias = Annotated[Path, typer.Argument(help="The coordinator's folder.")]


class CoordinatorFolder:
    """Paths are absolute, for the ServerApp works elsewhere."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.ca = self.path / "certificates" / "ca.crt"
        """Certificate by which silos know the coordinator."""
        self.ca_key = self.path / "certificates" / "ca.key"
        self.server_certificate = self.path / "certificates" / "server.pem"
        self.server_key = self.path / "certificates" / "server.key"
        self.clients_ca = self.path / "certificates" / "clients.crt"
        """Certificate by which the gateway knows silos."""
        self.clients_key = self.path / "certificates" / "clients.key"
        self.secret = self.path / "secret"
        """Secret of a SuperExec for the SuperLink."""
        self.study = self.path / "study"
        self.silos = self.path / "silos"
        """Public keys of the silos' nodes, each under its silo's name."""
        self.state = self.path / "state"
        """The SuperLink's database."""
        self.runs = self.path / "runs"
        self.kits = self.path / "kits"
        """Each silo's certificate, under its name."""
        self.invitations = self.path / "invitations"
        """Invitations, one for each silo."""
        self.signing_key = self.path / "certificates" / "invitations.key"
        """Key that signs invitations."""
        self.settings = self.path / "coordinator.toml"
        self.gateway = self.path / "gateway.conf"
        """nginx's settings, without containers."""
        self.flower_config = self.path / "flwr" / "config.toml"

    @classmethod
    def open(cls, path: Path) -> "CoordinatorFolder":
        """One that was made by ``fedct coordinator init``. Raises ConfigError."""
        folder = cls(path)
        for file in (folder.ca, folder.flower_config):
            if not file.is_file():
                raise ConfigError(f"{path} is no coordinator's folder, as there is no {file}: make one with "
                                  "'fedct coordinator init'")  # fmt: skip
        if folder.ca.with_name("ca.next.crt").exists():
            raise ConfigError(f"{folder.ca.parent} holds authorities of a rotation: move ca.* and clients.* away, run "
                              "'fedct coordinator init' again, and invite all silos again")  # fmt: skip
        return folder

    def keys(self) -> dict[str, Path]:
        """The file of each silo's public key, ``silos/NAME.pub``, by the silo's name, in the order of the paths.

        Raises ConfigError for a NAME that is no name of a silo.
        """
        found = {path.stem: path for path in sorted(self.silos.glob("*.pub"))}
        for name, path in found.items():
            if why := name_fault(name):
                raise ConfigError(f"{path} is not named after a silo: rename it to NAME.pub as silo.toml says; {why}")
        return found

    def config(self) -> CoordinatorConfig:
        """The coordinator's settings; a folder of before there were any has the usual ones. Raises ConfigError."""
        return CoordinatorConfig.read_toml(self.settings) if self.settings.exists() else CoordinatorConfig()

    def address(self) -> str:
        """Where the SuperLink is, as ``host:port``. Raises ConfigError."""
        try:
            config = tomllib.loads(self.flower_config.read_text("utf-8"))
            return str(config["superlink"][CONNECTION]["address"])
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            raise ConfigError(
                f"{self.flower_config} names no address under [superlink.{CONNECTION}]: make it again with "
                "'fedct coordinator init'"
            ) from None

    def write_flower_config(self, address: str) -> None:
        """So that plain ``flwr run . deployment`` finds the SuperLink, with FLWR_HOME set to the folder ``flwr``."""
        connection = {"address": address, "root-certificates": str(self.ca)}
        config = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        write_atomically(self.flower_config, tomli_w.dumps(config).encode())


def coordinators_study(folder: Path) -> StudyFolder:
    """As ``read_study``, with an error for coordinators: they cannot be told to ask the coordinator."""
    if not (folder / STUDY_FILE).is_file():
        raise ConfigError(f"no {STUDY_FILE} in {folder}: put the study's files there, {STUDY_FILE} and the public set")
    study = read_study(folder)
    if study.config.count or study.config.scores:
        labelers.check_extra("privacy", "[count] or [scores] in study.toml")
        drawing.check_counts(study.config)
    return study
