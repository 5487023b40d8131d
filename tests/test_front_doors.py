"""The public names of each room: an ``__init__`` that imports a name when it is first asked for."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import fedct_flwr

ROOMS = [entry.name for entry in iter_modules(fedct_flwr.__path__) if entry.ispkg]


@pytest.mark.parametrize("room", ROOMS)
def test_each_public_name_is_there_and_none_is_a_modules_name(room: str) -> None:
    door = import_module(f"fedct_flwr.{room}")
    names = getattr(door, "__all__", ())
    for name in names:
        assert getattr(door, name) is not None
    # Once such a module was imported, the name would mean the module.
    assert not {*names} & {path.stem for path in Path(str(door.__file__)).parent.iterdir()}
