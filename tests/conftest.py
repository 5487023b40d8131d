"""For all tests."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """One thread, as for a silo: on a machine with few cores, threads that wait for each other take minutes."""
    import torch

    torch.set_num_threads(1)
    threadpool_limits(1)
