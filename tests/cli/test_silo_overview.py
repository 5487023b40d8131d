"""Several studies at one silo: what left about the same records, over all of them."""

import json
from pathlib import Path

from fedct_flwr.hospital.books import Spent
from fedct_flwr.hospital.shared_books import SharedBooks
from fedct_flwr.types import ConfigError
from tests.cli.silos import Fedct, Kit, make_kit


def test_what_left_about_the_same_records_is_added_up(fedct: Fedct, kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = make_kit(fedct, tmp_path / "other", data=str(kit.source / "data.csv"))
    third = make_kit(fedct, tmp_path / "third", data=str(tmp_path / "elsewhere.csv"))
    for one, labels in ((kit, 228), (other, 100), (third, 7)):
        with one.log() as log:
            log.append(one.released(1, labels, 50))
    folders = [one.folder for one in (kit, other, third)]
    said = json.loads(fedct("silo", "overview", *folders, "--json").out)
    assert [study["sent"]["labels"] for study in said["studies"]] == [228, 100, 7]
    assert [study["approval"] for study in said["studies"]] == ["none"] * 3
    assert said["records"] == {
        str(kit.source / "data.csv"): {"messages": 2, "labels": 328, "bytes": 100},
        str(tmp_path / "elsewhere.csv"): {"messages": 1, "labels": 7, "bytes": 50},
    }
    shown = fedct("silo", "overview", *folders)
    assert (shown.code, "328 labels in 2 messages" in " ".join(shown.out.split())) == (0, True)


def test_a_folder_is_named_once(fedct: Fedct, kit: Kit) -> None:
    assert fedct("silo", "overview", kit.folder, kit.folder / "silo.toml").code == ConfigError.exit_code


def test_status_and_approval_tell_of_limits_that_studies_share(fedct: Fedct, kit: Kit, tmp_path: Path) -> None:
    kit.file.write_text(
        f"{kit.file.read_text('utf-8')}\n[records]\nfolder = '{tmp_path / 'common'}'\nmax-queries = 300\n", "utf-8"
    )
    books = SharedBooks(tmp_path / "common", "another", {"max_rounds": 9, "max_queries": 300, "max_bytes": 9000})
    books.charge(Spent(rounds=1, queries=228, bytes=40))
    page = " ".join(fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").out.split())
    assert "Limits over all studies of these records" in page
    assert "Labels: 300, of which 228 are used" in page
    assert "Counted for 1 silo folder in" in page
    said = json.loads(fedct("silo", "status", kit.folder, "--json").out)["records"]
    assert said["used"] == {"rounds": 1, "labels": 228, "bytes": 40}
    assert said["limits"]["labels"] == 300
    shown = " ".join(fedct("silo", "status", kit.folder).out.split())
    assert "labels: 228 of 300 used" in shown
    (tmp_path / "common" / "ledger.mark").unlink()
    (tmp_path / "common" / "ledger.mark").write_bytes(b"another\n")
    shown = " ".join(fedct("silo", "status", kit.folder).out.split())
    assert "what has left cannot be told, so nothing leaves" in shown
