"""Golden runs of the baselines, in which silos share the weights of their networks.

On the machine of the recording each array is equal to the byte. On another CPU its name, type and shape are equal, and
its norm to 2%, as is every number in the round log.
"""

from pathlib import Path

import pytest

from tests.golden.checked import check_run
from tests.golden.runs import WEIGHTS


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    check_run(WEIGHTS, name, tmp_path)
