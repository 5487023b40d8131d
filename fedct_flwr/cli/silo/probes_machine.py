"""Is this machine fit for a silo: Python, packages, disk, device."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fedct_flwr import __version__
from fedct_flwr.cli import installed
from fedct_flwr.cli.silo.findings import Finding, Silo, bad, by_amount, good, warning
from fedct_flwr.learners.catalog import NETWORKS, TRANSFORMER

_FLOWER: Final = ((1, 41), (1, 43))
_PACKAGES: Final = ("numpy", "scikit-learn", "pyarrow", "torch", "xgboost-cpu")
_MEGABYTE: Final = 1_000_000
_LEAST_DISK: Final = 100 * _MEGABYTE
_GOOD_DISK: Final = 1000 * _MEGABYTE


def python(silo: Silo) -> Iterator[Finding]:
    """Which Python this is."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < installed.PYTHON:
        yield bad(f"Python {found}", "install Python 3.11 or newer")
    else:
        yield good(f"Python {found} on {sys.platform}")


def packages(silo: Silo) -> Iterator[Finding]:
    """Which versions are installed."""
    flower = installed.version_of("flwr") or "not installed"
    others = [f"{name} {found}" for name in _PACKAGES if (found := installed.version_of(name))]
    said = f"fedct-flwr {__version__}, flwr {flower}, {', '.join(others)}"
    oldest, too_new = _FLOWER
    if oldest <= installed.numbers(flower)[:2] < too_new:
        yield good(said)
    else:
        yield bad(said, "pip install 'flwr>=1.41,<1.43': the agent speaks to a SuperNode of these versions")


def disk(silo: Silo) -> Iterator[Finding]:
    """Room for the log and the model: what cannot be logged is not released."""
    free = shutil.disk_usage(_existing(silo.config.state)).free
    yield by_amount(
        f"disk: {free // _MEGABYTE:,} MB are free where the log and the model are kept",
        free,
        (_LEAST_DISK, f"make room, at least {_LEAST_DISK // _MEGABYTE} MB: what cannot be logged does not leave"),
        (_GOOD_DISK, f"make room, {_GOOD_DISK // _MEGABYTE:,} MB are better"),
    )


def device(silo: Silo) -> Iterator[Finding]:
    """For networks, where they are trained."""
    settings = silo.config.learner
    if settings.name in {*NETWORKS, TRANSFORMER}:
        yield device_for(settings.device)


def device_for(name: str) -> Finding:
    """Whether the device is there that ``device`` in ``silo.toml`` names."""
    from fedct_flwr.types import ConfigError

    try:
        from fedct_flwr.learners.trained_network import choose_device

        found = choose_device(name).type
    except ImportError:
        return bad(
            "device: networks need torch, which is not installed", "pip install -c constraints.txt -e '.[torch]'"
        )
    except ConfigError as error:
        return bad(f"device: {name!r} is not there", "write device = 'auto' under [learner] in silo.toml", error)
    if found == "cpu" and name == "auto":
        return warning("device: no GPU is there, the network is trained on the CPU", "nothing, if that is fast enough")
    return good(f"device: the network is trained on {found}")


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that there is."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
