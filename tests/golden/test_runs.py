"""Runs and approvals are what they were.

On the machine of the recording all is equal to the byte. On another CPU rounding may differ: see ``compare.py``.
"""

from pathlib import Path

import pytest

from tests.golden import approvals
from tests.golden.checked import check, check_run
from tests.golden.runs import ALL


@pytest.mark.parametrize("name", ALL)
def test_the_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    check_run(name, tmp_path)


def test_what_an_approval_signs_is_what_it_was(tmp_path: Path) -> None:
    check(approvals.NAME, approvals.record(tmp_path))
