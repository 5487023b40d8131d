"""Golden runs in which silos answer with values of a quantity."""

from pathlib import Path

import pytest

from tests.golden.checked import check_run
from tests.golden.runs import VALUES


@pytest.mark.parametrize("name", VALUES)
def test_the_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    check_run(VALUES, name, tmp_path)
