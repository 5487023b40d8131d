"""Which versions a run is computed with, and whether it can be read here."""

import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from fedct_flwr import __version__
from fedct_flwr.types import RunError

_PACKAGES: Final = ("flwr", "numpy", "scikit-learn")


def versions() -> dict[str, str]:
    """What a run is computed with."""
    # Flower runs this code from its bundle, where the package itself need not be installed.
    ours = {"fedct-flwr": __version__, "python": platform.python_version()}
    # A run with a network has loaded torch; others need not have it.
    packages = [*_PACKAGES, "torch"] if "torch" in sys.modules else _PACKAGES
    return ours | {name: version(name) for name in packages}


def check_version(path: Path, version: str) -> None:
    """Raise RunError for a run of a newer version: what its files say may mean something else."""
    if _release(version) > _release(__version__):
        raise RunError(f"the run in {path} is of fedct-flwr {version:.40} and this is {__version__}: update fedct-flwr")


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version)[:3])
