"""A run as a Research Object Crate, read back by the library that others read it with."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fedct_flwr.types import RunError
from tests.report.folders import finished

rocrate = pytest.importorskip("rocrate.rocrate")


def crate_of(folder: Path, *, models: bool = False) -> tuple[Any, zipfile.ZipFile]:
    from fedct_flwr.report.crate import write_crate

    target = folder.parent / "crate.zip"
    write_crate(folder, target, "# Privacy sheet\n", models=models)
    return rocrate.ROCrate(target), zipfile.ZipFile(target)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = finished(tmp_path / "run").path
    config = json.loads((folder / "config.json").read_text())
    config["settings"] |= {"run-dir": "/home/jane.doe/run", "data-dir": "~/patients"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "errors.jsonl").write_text('{"what": "records of mine"}\n')
    (folder / "labels.csv").write_text("example,label\n0,yes\n")
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "oslo.skops").write_bytes(b"a model")
    return folder


def test_it_says_what_ran_and_names_each_file_with_its_digest(run: Path) -> None:
    crate, archive = crate_of(run)
    root = crate.root_dataset
    assert root["name"] == "hearts: FedCT (majority)"
    assert root["description"]
    assert root["datePublished"]
    assert root["license"]["name"] == "No licence stated"
    files = {entity.id: entity for entity in crate.get_by_type("File", exact=True)}
    assert {"config.json", "rounds.jsonl", "labels.csv", "privacy-sheet.md"} <= set(files)
    for name, entity in files.items():
        content = archive.read(name)
        assert (entity["sha256"], entity["contentSize"]) == (hashlib.sha256(content).hexdigest(), str(len(content)))
    action = crate.dereference("#run")
    assert action["actionStatus"].endswith("CompletedActionStatus")
    assert action["object"]["identifier"] == f"sha256:{'ab' * 32}"
    parts = [action["instrument"], *action["instrument"]["softwareRequirements"]]
    assert {"fedct-flwr", "python", "flwr"} <= {part["name"] for part in parts if part["version"]}


def test_records_errors_paths_and_models_stay_out(run: Path) -> None:
    _, archive = crate_of(run)
    assert not [name for name in archive.namelist() if name.startswith("models") or "error" in name or "report" in name]
    everything = b"".join(map(archive.read, archive.namelist()))
    assert b"jane.doe" not in everything
    assert json.loads(archive.read("config.json"))["settings"]["data-dir"] == "patients"


def test_models_are_in_it_if_asked_for_and_no_link_is_followed(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of another")
    (run / "models" / "rome.skops").symlink_to(tmp_path / "secret")
    (run / "trust.jsonl").symlink_to(tmp_path / "secret")
    _, archive = crate_of(run, models=True)
    assert archive.read("models/oslo.skops") == b"a model"
    assert not {"models/rome.skops", "trust.jsonl"} & set(archive.namelist())


def test_a_run_that_cannot_be_read_leaves_nothing(run: Path) -> None:
    (run / "config.json").write_text("{")
    with pytest.raises(RunError):
        crate_of(run)
    assert not (run.parent / "crate.zip").exists()
