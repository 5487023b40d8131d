"""Several studies at one silo: what left about the same records, over all of them."""

import json
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.silo.page import document
from fedct_flwr.hospital.books import Spent
from fedct_flwr.hospital.shared_books import SharedBooks
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.common_budget import common_budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.silo.release import DATA_SET
from fedct_flwr.types import ConfigError
from tests.cli.silos import Fedct, Kit, make_kit
from tests.wording import sentences_with


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


def test_status_and_approval_tell_of_limits_that_studies_share(
    fedct: Fedct, kit: Kit, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    kit.file.write_text(
        f"{kit.file.read_text('utf-8')}\n[records]\nfolder = '{tmp_path / 'common'}'\nmax-queries = 300\n", "utf-8"
    )
    books = SharedBooks(tmp_path / "common", "another", {"max_rounds": 9, "max_queries": 300, "max_bytes": 9000})
    books.charge(Spent(rounds=1, queries=228, bytes=40))
    page = " ".join(fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").out.split())
    assert sentences_with(page, "over all studies") == wording
    assert "Labels: 300, of which 228 are used" in page
    assert "Counted for 1 silo folder in" in page
    said = json.loads(fedct("silo", "status", kit.folder, "--json").out)["records"]
    assert said["used"] == {"rounds": 1, "labels": 228, "bytes": 40}
    assert said["limits"]["labels"] == 300
    shown = " ".join(fedct("silo", "status", kit.folder).out.split())
    assert "labels: 228 of 300 used" in shown
    assert "1 silo folder counted in" in shown
    (tmp_path / "common" / "ledger.mark").unlink()
    (tmp_path / "common" / "ledger.mark").write_bytes(b"another\n")
    shown = " ".join(fedct("silo", "status", kit.folder).out.split())
    assert "what has left cannot be told, so nothing leaves" in shown


# --- limits over all studies


@pytest.fixture
def sharing(fedct: Fedct, kit: Kit, tmp_path: Path) -> tuple[Kit, Kit]:
    """Two studies about the same records with the same limits, each of which names the folder from its own on."""
    other = make_kit(fedct, tmp_path / "other", data=str(kit.source / "data.csv"))
    for one in (kit, other):
        common = Path(os.path.relpath(tmp_path / "common", one.folder))
        with one.file.open("a", encoding="utf-8") as file:
            file.write(f"\n[records]\nfolder = '{common}'\nmax-queries = 300\n")
    SharedBooks.of(kit.config, Ed25519PrivateKey.generate().public_key()).charge(Spent(1, 228, 40))  # type: ignore[union-attr]
    return kit, other


def test_limits_over_all_studies_are_told_once(
    fedct: Fedct, sharing: tuple[Kit, Kit], tmp_path: Path, wording: SnapshotAssertion
) -> None:
    folders = [one.folder for one in sharing]
    said = json.loads(fedct("silo", "overview", *folders, "--json").out)
    assert said["limits"] == [
        {
            "folder": str(tmp_path / "common"), "studies": [str(folder) for folder in folders], "counted": 1,
            "limits": {"rounds": 100, "labels": 300, "bytes": 10_000_000},
            "used": {"rounds": 1, "labels": 228, "bytes": 40}, "privacy": None,
        }
    ]  # fmt: skip
    # A study's own limit is a million.
    assert [study["labels_left"] for study in said["studies"]] == [72, 72]
    shown = " ".join(fedct("silo", "overview", *folders).out.split())
    assert sentences_with(shown, "over all studies") == wording
    assert "1 of 100 rounds, 228 of 300 labels, 40 of 10,000,000 bytes used; 1 silo folder counted" in shown
    assert "not counted with it" not in shown


def test_studies_with_limits_of_their_own_are_told_apart(fedct: Fedct, sharing: tuple[Kit, Kit]) -> None:
    sharing[1].edit("max-queries = 300", "max-queries = 200")
    said = json.loads(fedct("silo", "overview", *(one.folder for one in sharing), "--json").out)
    assert [(len(one["studies"]), one["limits"]["labels"]) for one in said["limits"]] == [(1, 300), (1, 200)]
    assert [study["labels_left"] for study in said["studies"]] == [72, 0]


def test_a_study_about_the_same_records_that_is_not_counted_is_named(
    fedct: Fedct, sharing: tuple[Kit, Kit], tmp_path: Path
) -> None:
    third = make_kit(fedct, tmp_path / "third", data=str(sharing[0].source / "data.csv"))
    elsewhere = make_kit(fedct, tmp_path / "fourth", data=str(tmp_path / "elsewhere.csv"))
    folders = [one.folder for one in (*sharing, third, elsewhere)]
    shown = " ".join(fedct("silo", "overview", *folders).out.split())
    assert shown.count("is not counted with it: name the same folder under [records]") == 1
    assert f"{third.folder} is about the same records as another study" in shown


def test_books_that_cannot_be_read_are_told(
    fedct: Fedct, sharing: tuple[Kit, Kit], tmp_path: Path, wording: SnapshotAssertion
) -> None:
    (tmp_path / "common" / "ledger.mark").write_bytes(b"another\n")
    folders = [one.folder for one in sharing]
    assert json.loads(fedct("silo", "overview", *folders, "--json").out)["limits"][0]["used"] is None
    shown = " ".join(fedct("silo", "overview", *folders).out.split())
    assert "what has left cannot be told, so nothing leaves. Run 'fedct silo check'" in shown
    found = " ".join(fedct("silo", "check", folders[0], "--offline").out.split())
    assert sentences_with(found, "over all studies", "cannot be told") == wording


def test_a_check_tells_of_limits_over_all_studies(
    fedct: Fedct, sharing: tuple[Kit, Kit], wording: SnapshotAssertion
) -> None:
    def found(kit: Kit) -> str:
        return " ".join(fedct("silo", "check", kit.folder, "--offline").out.split())

    assert sentences_with(found(sharing[0]), "over all studies", "228 of 300") == wording
    sharing[1].edit("max-queries = 300", "max-queries = 228")
    assert sentences_with(found(sharing[1]), "over all studies", "228 of 228") == wording


def test_a_check_tells_of_a_folder_that_is_not_mounted(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    with kit.file.open("a", encoding="utf-8") as file:
        # A place where nobody, not even root, makes a folder.
        file.write("\n[records]\nfolder = '/proc/self/limits'\n")
    found = " ".join(fedct("silo", "check", kit.folder, "--offline").out.split())
    assert sentences_with(found, "over all studies", "…/limits") == wording
    assert "compose.limits.yaml says how" in found


def test_the_budget_over_all_studies_is_told_wherever_the_limits_are(
    fedct: Fedct, sharing: tuple[Kit, Kit], tmp_path: Path
) -> None:
    for one in sharing:
        one.edit('protection = "none"', 'protection = "teachers"')
        one.edit("max-queries = 300", "max-queries = 300\nepsilon = 2.0")
    config = sharing[0].config
    with Ledger(config.state, common=common_budget(config)) as ledger:
        ledger.charge("heart-disease", DATA_SET, Budget(1.0, 1e-5), pure(0.25))
    folders = [one.folder for one in sharing]
    (limits,) = json.loads(fedct("silo", "overview", *folders, "--json").out)["limits"]
    assert limits["privacy"] == pytest.approx({"epsilon": 2.0, "delta": 1e-5, "spent": 0.25, "left": 1.75}, abs=1e-3)
    shown = " ".join(fedct("silo", "overview", *folders).out.split())
    assert "1 silo folder counted; epsilon 0.25 of 2 spent at delta 1e-05" in shown
    # The other study has spent nothing itself.
    assert "epsilon: 0.25 of 2 spent, 1.75 left" in " ".join(fedct("silo", "status", folders[1]).out.split())
    page = document(sharing[1].config)
    assert '0.25 of 2 spent<div class="bar"><div style="width: 12.5%"' in page
    found = " ".join(fedct("silo", "check", folders[1], "--offline").out.split())
    assert "bytes, epsilon 0.25 of 2 used" in found
