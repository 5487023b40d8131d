"""Plain ``flwr`` for tests, apart from what the user of this machine does with Flower."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedct_flwr.flower.command import environment
from fedct_flwr.flower.engine import superlink
from tests.readme import ROOT


@contextmanager
def own_flower(folder: Path, **variables: str) -> Iterator[dict[str, str]]:
    """Environment with these variables, in which plain ``flwr`` finds a SuperLink of its own, gone afterwards.

    Without a connection in its home, Flower would start one at a port that all of a machine share, and leave it there.
    """
    home = folder / "flwr"
    home.mkdir()
    found = environment(home) | variables
    with (folder / "superlink.log").open("w", encoding="utf-8") as output, superlink(found, output):
        yield found


def cloned(folder: Path) -> Path:
    """What somebody has after cloning the repository into this folder."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder
