"""``import fedct_flwr``: all public names, none of which is loaded before somebody asks for it."""

import subprocess
import sys
from pathlib import Path

import pytest

import fedct_flwr
from tests.patience import PATIENCE

HEAVY = {"torch", "sklearn", "scipy", "pandas", "pyarrow", "flwr", "numpy", "pydantic", "rich"}


def loaded_after(code: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after this."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"],
        cwd=Path(fedct_flwr.__file__).parents[1], check=True, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert "fedct_flwr" in loaded_after("import fedct_flwr")
    assert not HEAVY & loaded_after("import fedct_flwr")


def test_simulate_waits_for_no_network() -> None:
    assert not {"torch", "sqlalchemy", "fastapi"} & loaded_after("from fedct_flwr import simulate")
    assert not {"torch", "sklearn", "flwr"} & loaded_after("from fedct_flwr import FedCT")


@pytest.mark.parametrize("name", fedct_flwr.__all__)
def test_a_public_name_is_there_and_explained(name: str) -> None:
    assert name in dir(fedct_flwr)
    assert getattr(fedct_flwr, name).__doc__
