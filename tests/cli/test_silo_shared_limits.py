"""Several studies about the same records at one silo: status and check show their common limits."""

import json
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedct_flwr.hospital.books import Spent
from fedct_flwr.hospital.shared_books import SharedBooks
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.common_budget import common_budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.silo.release import DATA_SET
from tests.cli.silos import Fedct, Kit, make_kit


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
    assert "1 silo folder counted in" in shown
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


def test_a_check_tells_of_a_folder_that_is_not_mounted(fedct: Fedct, kit: Kit) -> None:
    with kit.file.open("a", encoding="utf-8") as file:
        # A place where nobody, not even root, makes a folder.
        file.write("\n[records]\nfolder = '/proc/self/limits'\n")
    found = " ".join(fedct("silo", "check", kit.folder, "--offline").out.split())
    assert "limits over all studies: this user cannot write into …/limits, so nothing leaves" in found


def test_the_budget_over_all_studies_is_told_wherever_the_limits_are(
    fedct: Fedct, sharing: tuple[Kit, Kit], tmp_path: Path
) -> None:
    for one in sharing:
        one.protect("teachers")
        one.edit("max-queries = 300", "max-queries = 300\nepsilon = 2.0")
    config = sharing[0].config
    with Ledger(config.state, common=common_budget(config)) as ledger:
        ledger.charge("heart-disease", DATA_SET, Budget(1.0, 1e-5), pure(0.25))
    folders = [one.folder for one in sharing]
    # The other study has spent nothing itself.
    assert "epsilon: 0.25 of 2 spent, 1.75 left" in " ".join(fedct("silo", "status", folders[1]).out.split())
    found = " ".join(fedct("silo", "check", folders[1], "--offline").out.split())
    assert "bytes, epsilon 0.25 of 2 used" in found
