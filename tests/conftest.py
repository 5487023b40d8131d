"""For all tests."""

import os
import signal

import pytest
from hypothesis import settings
from syrupy.assertion import SnapshotAssertion
from threadpoolctl import threadpool_limits

from tests.marks import SESSION, end_all, end_orphans
from tests.wording import extension

# No test fails because the machine is busy.
settings.register_profile("any-speed", deadline=None)
settings.load_profile("any-speed")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing that tests start outlives them, also where they are interrupted or have been killed."""
    # Not in the workers, which have it from here.
    if SESSION in os.environ:
        return
    os.environ[SESSION] = str(os.getpid())
    config.add_cleanup(_tidy_up)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    end_orphans()


def _tidy_up() -> None:
    end_all(os.environ.pop(SESSION), SESSION)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What mostly waits comes first: beside it, other workers have all the rest to do."""
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in ("engine", "processes")))


@pytest.fixture
def wording(snapshot: SnapshotAssertion, tmp_path_factory: pytest.TempPathFactory) -> SnapshotAssertion:
    """The recorded wording of a page or a message: compare with ``==``."""
    base = tmp_path_factory.getbasetemp()
    return snapshot.use_extension(extension(base.parent if base.name.startswith("popen-") else base))


@pytest.fixture
def in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Flower sets before it calls an app: Flower's messages ask whose they are."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def without_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real silos answer whoever asks them, without an agent."""
    monkeypatch.setenv("FEDCT_WITHOUT_GATE", "1")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """One thread, as for a silo: on a machine with few cores, threads that wait for each other take minutes."""
    import torch

    torch.set_num_threads(1)
    threadpool_limits(1)


@pytest.fixture(autouse=True, scope="session")
def _torchvision() -> None:
    """torchvision wants operators that its own build for another torch may lack; no network here uses them."""
    from fedct_flwr.learners.networks import mend_torchvision

    mend_torchvision()
