"""Golden runs in which silos answer with counts of their students' votes."""

from pathlib import Path

import pytest

from tests.golden.checked import check_run
from tests.golden.runs import COUNTS


@pytest.mark.parametrize("name", COUNTS)
def test_the_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    check_run(COUNTS, name, tmp_path)
