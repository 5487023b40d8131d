"""What silos have approved stays approved."""

from pathlib import Path

from tests.golden.approvals import NAME, record
from tests.golden.checked import check


def test_what_an_approval_signs_is_what_it_was(tmp_path: Path) -> None:
    check(NAME, record(tmp_path))
