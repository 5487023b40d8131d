"""``fedct silo overview``: several studies at one silo, and what left over all of them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli import documents
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo.folder import silo_file
from fedct_flwr.cli.silo.standing import facts, study_of
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital.books import Left, left
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.types import ConfigError


def overview(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="The folders, one for each study.")],
    json_: Json = False,
) -> None:
    """Show several studies of one house together: what left in each, what left about the same records in all of them.

    Each study has a folder, keys and an agent of its own. Records are the same where the same file is named.
    """
    configs = [SiloConfig.read_toml(silo_file(folder)) for folder in folders]
    for number, config in enumerate(configs):
        if config.state in [other.state for other in configs[:number]]:
            raise ConfigError(f"{folders[number]} is named twice: name each folder once")
    studies: list[documents.StudyOverview] = []
    of_records: dict[str, Left] = {}
    for folder, config in zip(folders, configs, strict=True):
        said, sums = facts(config, study_of(config)), left(read_entries(config.state))
        records = str(config.data.file.resolve())
        before = of_records.get(records, Left())
        of_records[records] = Left(*(one + more for one, more in zip(before, sums, strict=True)))
        studies.append(
            {
                "folder": str(folder),
                "silo": config.silo,
                "study": said["study"],
                "approval": said["approval"]["state"],
                "healthy": said["agent"]["healthy"],
                "records": records,
                "sent": sums._asdict(),
                "labels_left": max(0, said["limits"]["labels"] - said["used"]["labels"]),
            }
        )
    document: documents.Overview = {
        "studies": studies,
        "records": {records: sums._asdict() for records, sums in of_records.items()},
    }
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("folder", "study", "approval", "agent", "labels that left", "labels left", "bytes that left"):
        table.add_column(title, overflow="fold")
    for study in studies:
        table.add_row(
            escape(study["folder"]), escape(study["study"] or "cannot be read"), study["approval"],
            "healthy" if study["healthy"] else "[yellow]not healthy[/]", f"{study['sent']['labels']:,}",
            f"{study['labels_left']:,}", f"{study['sent']['bytes']:,}",
        )  # fmt: skip
    out = Output(as_json=json_)
    out.show(document, table)
    for path, sums in of_records.items():
        out.say(
            f"About {path}: {sums.labels:,} labels in {sums.messages:,} messages and {sums.bytes:,} bytes have left"
        )
