"""What tests on the engine share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock


@pytest.fixture(scope="module")
def _local_superlink() -> Iterator[None]:
    """Flower's local SuperLink has one port for the whole machine: of parallel tests one at a time has it."""
    with FileLock(Path(tempfile.gettempdir()) / "fedct-test-local-superlink.lock", timeout=1800):
        yield
