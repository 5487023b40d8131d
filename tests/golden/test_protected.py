"""Golden runs in which the labels that leave are protected, by each protection."""

from pathlib import Path

import pytest

from tests.golden.checked import check_run
from tests.golden.runs import PROTECTED


@pytest.mark.parametrize("name", PROTECTED)
def test_the_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    check_run(PROTECTED, name, tmp_path)
