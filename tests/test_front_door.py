"""Public names of the package and of its rooms, none of which is loaded before somebody asks for it."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import fedct_flwr
from tests.patience import PATIENCE

ROOMS = [entry.name for entry in iter_modules(fedct_flwr.__path__) if entry.ispkg]
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


@pytest.mark.parametrize("room", ROOMS)
def test_each_public_name_is_there_and_none_is_a_modules_name(room: str) -> None:
    door = import_module(f"fedct_flwr.{room}")
    names = getattr(door, "__all__", ())
    for name in names:
        assert getattr(door, name) is not None
    # Once such a module was imported, the name would mean the module.
    modules = {path.stem for path in Path(str(door.__file__)).parent.iterdir() if path.suffix in ("", ".py")}
    assert not {*names} & modules
