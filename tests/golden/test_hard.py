"""Golden runs in which silos answer with one label for each example."""

from pathlib import Path

import pytest

from tests.golden.checked import check_run
from tests.golden.runs import HARD


@pytest.mark.parametrize("name", HARD)
def test_the_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    check_run(HARD, name, tmp_path)
