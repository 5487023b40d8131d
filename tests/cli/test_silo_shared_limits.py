"""Several studies about the same records at one silo: status and check show their common limits."""

import json
from pathlib import Path

from fedct_flwr.hospital.log_entry import Spent
from fedct_flwr.hospital.shared_usage import SharedUsage
from tests.cli.silos import Fedct, Kit


def test_status_and_approval_tell_of_limits_that_studies_share(fedct: Fedct, kit: Kit, tmp_path: Path) -> None:
    kit.file.write_text(
        f"{kit.file.read_text('utf-8')}\n[records]\nfolder = '{tmp_path / 'common'}'\nmax-queries = 300\n", "utf-8"
    )
    usage = SharedUsage(tmp_path / "common", "another", {"max_rounds": 9, "max_queries": 300, "max_bytes": 9000})
    usage.charge(Spent(rounds=1, queries=228, bytes=40))
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
