"""Silos whose agents are attacked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hospital.agents import Make, silos_in


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with silos_in(tmp_path) as make:
        yield make
