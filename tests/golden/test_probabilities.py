"""Golden runs in which silos answer with probabilities of classes."""

from pathlib import Path

import pytest

from tests.golden.checked import check_run
from tests.golden.runs import PROBABILITIES


@pytest.mark.parametrize("name", PROBABILITIES)
def test_the_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    check_run(PROBABILITIES, name, tmp_path)
