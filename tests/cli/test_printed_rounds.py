"""What a run prints of its rounds."""

import io
import json
from pathlib import Path

from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.printed_rounds import PrintedRounds
from fedct_flwr.runs.run_folder import RunFolder
from tests.report.folders import SILOS, add_round, begin


def watching(folder: RunFolder) -> tuple[PrintedRounds, io.StringIO]:
    said = io.StringIO()
    console = Console(file=said, width=200)
    return PrintedRounds(console, folder, console.status("")), said


def test_each_round_is_printed_once_when_it_ends(tmp_path: Path, wording: SnapshotAssertion) -> None:
    watch, said = watching(RunFolder(tmp_path / "run"))
    assert not watch()
    folder = begin(tmp_path / "run")
    add_round(folder, 1)
    assert not watch()
    assert not watch()
    add_round(folder, 2, changed=1)
    add_round(folder, 3, SILOS[:1], changed=0, absent={"rome": "no reply"})
    # As of a step of the joint labeler whose sum failed.
    nothing = {"round": 4, "bytes_sent": 0, "silos": {}, "absent": {"rome": "its part is missing"}}
    with (folder.path / "rounds.jsonl").open("a") as file:
        file.write(json.dumps(nothing) + "\n")
    folder.finish("completed")
    assert watch()
    assert [line.strip() for line in said.getvalue().splitlines()] == wording
