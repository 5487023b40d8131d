"""``fedct silo dpia``: a data protection impact assessment (GDPR Art. 35(7)), filled in with what a silo's files tell.

Each figure has one source, which other commands print too: the page to approve, the privacy sheet with its ledger, the
egress log, the audit. The rest is for the controller to answer, and never guessed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
import typer
from jinja2 import UndefinedError

from fedct_flwr.cli.output import Output, check_new, echo
from fedct_flwr.cli.privacy_sheet import attacks_in
from fedct_flwr.cli.promised import sheets_of
from fedct_flwr.cli.silo.approval_page import STATED, Page, Units
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.federated import column_of_groups, num_units, numbered
from fedct_flwr.datasets.inspections import table_of_tests
from fedct_flwr.datasets.silo_records import read_grouped, table_of
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.files import write_atomically
from fedct_flwr.hospital.approval import in_force
from fedct_flwr.hospital.duplicates import UNNOTICED, find_duplicates
from fedct_flwr.hospital.keys import load_public_key, public_key_path
from fedct_flwr.hospital.log_entry import Event, LogEntry, read_entries, spent, verify_log
from fedct_flwr.text.markdown import template
from fedct_flwr.text.printable import listed, printable, rounded
from fedct_flwr.types import ConfigError
from fedct_flwr.version import __version__

OPEN: Final = "*to be answered by the controller*"
_OWN: Final = {
    "purpose": "Purpose",
    "lawful_basis": "Lawful basis",
    "ethics_number": "Number of the ethics vote",
    "processors": "Processors",
}
"""Titles of the fields of ``[governance]`` in silo.toml."""
_PLACES: Final = {"What does not": "need", "Limits": "need", "Records of": "risk", "What you": "risk"}
"""Sections of the page to approve by their beginnings; all others describe the processing or its risk."""
_STATED_ELSEWHERE: Final = "What the study states"
_COPIES: Final = "Records of this silo in the public set"


def dpia(
    folder: Folder = None,
    output: Annotated[Path | None, typer.Option(help="Write there.", show_default="standard output")] = None,
) -> None:
    """Write a data protection impact assessment as Markdown, filled in with what the silo's files tell.

    It quotes the page to approve, the privacy sheet and the log, and names what the controller has to answer.
    """
    check_new(output)
    file = silo_file(folder)
    with Output.doing("collecting what is known"):
        config = SiloConfig.read_toml(file)
        text = filled(facts(config, read_study(config.study), file.parent))
    if output:
        write_atomically(output, text.encode())
    else:
        echo(text)


def filled(values: Mapping[str, Any]) -> str:
    """The page. Raises ConfigError for a field of the template that no source fills."""
    try:
        page = printable(template(__package__, "dpia.md").render(values).lstrip("\n"), keep="\n")
    except (UndefinedError, TypeError) as error:  # a filter or a format that is given nothing
        raise ConfigError(f"the template of the impact assessment has a field without a source: {error}") from None
    # Text from the study and from audit.json must not become HTML when the page is rendered.
    return page.replace("<", "&lt;")


def facts(config: SiloConfig, study: StudyFolder, folder: Path) -> dict[str, Any]:
    """All that the template asks for. Raises ConfigError, DataError, LedgerError or RunError."""
    table = table_of(config.data, study)
    records, groups = read_grouped(config.data, study, table=table)
    entries, found = [*read_entries(config.state)], find_duplicates(records.X, study.public.X, study.schema)
    sections = Page(config, study, entries, Units.of(records, groups, step=10), found).sections()
    sections.pop(_STATED_ELSEWHERE, None)
    # The page to approve stays at the silo; exact numbers of two such pages would tell how many have opted out.
    copies = f"{rounded(found.rounded)} at most rounded" if found.rounded else "none"
    sections[_COPIES] = [
        f"Copies, to tens: {copies}; {UNNOTICED}{'; ask where the public set comes from' * found.alarm}"
    ]
    sheets = sheets_of(config, study, entries)
    return {
        **{place: dict(_at(place, sections)) for place in ("what", "need", "risk")},
        "silo": config.silo,
        "study": study.name,
        "version": __version__,
        "unit": config.unit,
        "units": rounded(num_units(records.size, groups) + _tested_alone(config, study, table)),
        "columns": [column.name for column in study.schema.columns],
        "own": {title: getattr(config.governance, name) for name, title in _OWN.items()},
        "stated": {title: getattr(study.config.governance, name) for name, title in STATED.items()},
        "open": OPEN,
        "accounts": [account for sheet in sheets.values() for account in sheet.accounts],
        # An audit of earlier settings says nothing of these kinds.
        "attacks": [] if config.unattacked else attacks_in(folder),
        "unattacked": listed(config.unattacked),
        "opt_out": config.records.opt_out is not None,
        "approval": _approval(entries),
        "spent": spent(entries),
        "leaving": config.leaving,
        "released": sum(entry.event is Event.RELEASED for entry in entries),
        "log": verify_log(config.state, load_public_key(public_key_path(config.egress_key)), config.silo),
    }


def _tested_alone(config: SiloConfig, study: StudyFolder, table: pa.Table | None) -> int:
    """How many units stand in the test file alone. Groups of images have no common numbers, so all of its own."""
    data, tested = config.data, table_of_tests(config.data, study)
    if data.test_file is None:
        return 0
    if table is None or tested is None:
        images, groups = read_grouped(data, study, data.test_file)
        return num_units(images.size, groups)
    if not data.tables.group:
        return int(tested.num_rows)
    places = ((table, data.source), (tested, data.test_file))
    own, others = numbered([column_of_groups(each, data.tables.group, path) for each, path in places])
    return len(np.setdiff1d(others, own))


def _at(place: str, sections: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    for title, lines in sections.items():
        told = "risk" if " may tell about " in title else "what"
        if next((at for begin, at in _PLACES.items() if title.startswith(begin)), told) == place:
            yield title, lines


def _approval(entries: list[LogEntry]) -> dict[str, Any] | None:
    """The approval in force: when, by whom, why, and the digest of its terms."""
    line = in_force(entries)
    return None if line is None else {"time": line.time, "by": "", "reason": "", **line.details}
