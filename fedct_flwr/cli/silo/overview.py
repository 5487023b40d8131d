"""``fedct silo overview``: several studies at one silo, what left over all of them, and the limits that they share."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

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
from fedct_flwr.text.plural import count
from fedct_flwr.types import ConfigError


def overview(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="The folders, one for each study.")],
    json_: Json = False,
) -> None:
    """Show several studies of one house together: what left in each, what left about the same records in all of them.

    Each study has a folder, keys and an agent of its own. Records are the same where the same file is named. Where
    silo.toml sets limits over all studies, under [records], it shows them and what all studies have used.
    """
    configs = [SiloConfig.read_toml(silo_file(folder)) for folder in folders]
    for number, config in enumerate(configs):
        if config.state in [other.state for other in configs[:number]]:
            raise ConfigError(f"{folders[number]} is named twice: name each folder once")
    studies: list[documents.StudyOverview] = []
    of_records: dict[str, Left] = {}
    shared: list[documents.SharedLimits] = []
    for folder, config in zip(folders, configs, strict=True):
        said, sums = facts(config, study_of(config)), left(read_entries(config.state))
        records = str(config.data.file.resolve())
        before = of_records.get(records, Left())
        of_records[records] = Left(*(one + more for one, more in zip(before, sums, strict=True)))
        if "records" in said:
            _add_limits(shared, str(folder), said["records"])
        studies.append(
            {
                "folder": str(folder),
                "silo": config.silo,
                "study": said["study"],
                "approval": said["approval"]["state"],
                "healthy": said["agent"]["healthy"],
                "records": records,
                "sent": sums._asdict(),
                "labels_left": _labels_left(said),
            }
        )
    document: documents.Overview = {
        "studies": studies,
        "records": {records: sums._asdict() for records, sums in of_records.items()},
        "limits": shared,
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
    for limits in shared:
        (out.say if limits["used"] and _epsilon_is_known(limits) else out.warn)(_in_words(limits))
    for sentence in _counted_alone(studies, configs):
        out.warn(sentence)


def _labels_left(said: Mapping[str, Any]) -> int:
    """By the limits that are known."""
    books = [said, *([said["records"]] if "records" in said and said["records"]["used"] else [])]
    return max(0, min(int(one["limits"]["labels"]) - int(one["used"]["labels"]) for one in books))


def _add_limits(found: list[documents.SharedLimits], folder: str, records: Mapping[str, Any]) -> None:
    """Studies with the same books and the same limits are told of together; each sets its own."""
    new: documents.SharedLimits = {
        "folder": records["folder"],
        "studies": [],
        "counted": records["studies"],
        "limits": records["limits"],
        "used": records["used"],
        "privacy": records.get("privacy"),
    }
    for one in found:
        if {**one, "studies": []} == new:
            one["studies"].append(folder)
            return
    found.append({**new, "studies": [folder]})


def _epsilon_is_known(limits: documents.SharedLimits) -> bool:
    return limits["privacy"] is None or limits["privacy"]["spent"] is not None


def _in_words(limits: documents.SharedLimits) -> str:
    begin = f"Limits over all studies of {', '.join(limits['studies'])}, counted in {limits['folder']}: "
    used = limits["used"]
    if used is None:
        return (
            f"{begin}what has left cannot be told, so nothing leaves. Run 'fedct silo check' on one of these folders: "
            "it says what to do"
        )
    parts = ", ".join(f"{used[name]:,} of {limit:,} {name}" for name, limit in limits["limits"].items())
    said = f"{begin}{parts} used; {count(limits['counted'], 'silo folder')} counted"
    if privacy := limits["privacy"]:
        epsilon = "epsilon: what is spent cannot be told, so nothing leaves"
        if _epsilon_is_known(limits):
            epsilon = f"epsilon {privacy['spent']:.3g} of {privacy['epsilon']:g} spent at delta {privacy['delta']:g}"
        said = f"{said}; {epsilon}"
    return said


def _counted_alone(studies: Sequence[documents.StudyOverview], configs: Sequence[SiloConfig]) -> Iterator[str]:
    """Studies that others about the same records do not count with theirs."""
    for study, config in zip(studies, configs, strict=True):
        others = {
            other.records.folder.resolve()
            for one, other in zip(studies, configs, strict=True)
            if one["records"] == study["records"] and other.records.folder
        }
        own = {config.records.folder.resolve()} if config.records.folder else set()
        if others - own:
            yield (
                f"{study['folder']} is about the same records as another study and is not counted with it: name the "
                "same folder under [records] in both silo.toml files, and approve that"
            )
