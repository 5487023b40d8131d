"""``fedct demo``: four hospitals and their coordinator as folders, complete, to be started as they are."""

import csv
import math
import shutil
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import tomli_w
import typer

from fedct_flwr import datasets
from fedct_flwr.cli.certificates import check_hosts
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.init import GATEWAY_PORT, PORT, prepare
from fedct_flwr.cli.coordinator.invite import files_of, make_kit
from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import SILO_FILE, check_new, host_and_port
from fedct_flwr.cli.silo.init import NewSilo, make_silo
from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets import FederatedDataset, SiloData
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.study_folder import STUDY_FILE, read_study
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.latest_state import open_log
from fedct_flwr.types import Features, HardLabels

LABEL = "class"
STUDY: Final = "heart-disease"
_COMPLETE: Final = ".complete"
_RUNTIME_PORT: Final = 9094
_OWNER_ONLY: Final = 0o700


def demo(
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name or IP address that gateway and SuperLink are called by; repeat it for more.",
            show_default="localhost, 127.0.0.1",
        ),
    ] = None,
    superlink: Annotated[str, typer.Option(help="Where the silos find the gateway, HOST:PORT.")] = (
        f"127.0.0.1:{GATEWAY_PORT}"
    ),
    address: Annotated[
        str, typer.Option(help="Where the coordinator's own commands find the SuperLink, HOST:PORT.")
    ] = f"127.0.0.1:{PORT}",
    supernode: Annotated[
        str,
        typer.Option(
            help="Where a silo's agent finds its SuperNode, HOST:PORT; {silo} stands for the silo's name, "
            "{port} for a port of its own, from 9094 on."
        ),
    ] = "127.0.0.1:{port}",
) -> None:
    """Make the folders of a demonstration: a coordinator, and four hospitals with data, keys and approvals.

    No one is asked for the approvals, so it is for the library's own public data alone. On folders that are complete
    it changes nothing.
    """
    out = Output()
    if (folder / _COMPLETE).is_file():
        out.say(f"{folder} is complete: nothing to do")
        return
    check_new(folder)
    hosts = host or ["localhost", "127.0.0.1"]
    check_hosts(hosts)
    for option, given in (("--superlink", superlink), ("--address", address), ("--supernode", supernode)):
        host_and_port(given.replace("{port}", str(_RUNTIME_PORT)).replace("{silo}", "silo"), option)
    dataset = datasets.load(RunConfig.from_flower({"study": STUDY, "data": STUDY}))
    folder.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
    coordinator, _ = prepare(folder / "coordinator", hosts, address, gateway=superlink)
    write_study(coordinator.study, dataset)
    for position, data in enumerate(dataset.silos):
        listens = supernode.replace("{silo}", data.name).replace("{port}", str(_RUNTIME_PORT + position))
        silo = _make_silo(folder / "silos" / data.name, data, dataset, coordinator, superlink, listens)
        shutil.copyfile(silo / "connection" / "node.key.pub", coordinator.silos / f"{data.name}.pub")
        out.warn(f"{silo}: a demonstration: approved automatically")
    (folder / _COMPLETE).touch()
    out.say(f"{folder} is complete: a coordinator and {len(dataset.silos)} silos")


def write_study(folder: Path, dataset: FederatedDataset) -> None:
    """``study.toml``, ``public.csv``, and ``test.csv`` with the pooled test set."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"study": STUDY, "classes": list(dataset.schema.classes), "public": "public.csv"}
    settings |= {"test-file": "test.csv", "test-label": LABEL}
    write_table(folder / "public.csv", dataset.schema, dataset.public.X)
    write_table(folder / "test.csv", dataset.schema, *dataset.test)
    (folder / STUDY_FILE).write_text(tomli_w.dumps(settings), encoding="utf-8")


def _make_silo(
    folder: Path,
    data: SiloData,
    dataset: FederatedDataset,
    coordinator: CoordinatorFolder,
    superlink: str,
    listens: str,
) -> Path:
    """A silo's folder with its records, approved."""
    make_kit(coordinator, data.name)
    ca, *clients = files_of(coordinator, data.name).values()
    # Scores leave, so that the demonstration has something to show.
    given = {"data.test-file": "test.csv", "policy.metrics": True, "connection.supernode": listens}
    new = NewSilo(
        folder, folder / "data.csv", data.name, coordinator.study, LABEL, superlink, ca, tuple(clients), given=given
    )
    make_silo(new)
    write_table(folder / "data.csv", dataset.schema, *data.private)
    write_table(folder / "test.csv", dataset.schema, *data.test)
    config = SiloConfig.read_toml(folder / SILO_FILE)
    with open_log(config) as log:
        approval.approve(log, config, read_study(config.study))
    return folder


def write_table(path: Path, schema: Schema, X: Features, y: HardLabels | None = None) -> None:
    """A CSV file, with the label column ``LABEL`` where there are labels. Numbers are read back as they are."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in schema.columns] + ([LABEL] if y is not None else []))
        for number, row in enumerate(np.asarray(X, dtype=np.float64).tolist()):
            fields = ["" if math.isnan(value) else repr(value) for value in row]
            writer.writerow(fields + ([schema.classes[y[number]]] if y is not None else []))
