"""Flower's SuperLink, which tells no silo what another one has sent and takes no answer in another's name.

Takes Flower's own options. The patches are ``silent_store`` and ``own_answers``.
"""

import sys
from importlib.metadata import entry_points
from typing import Final

from fedct_flwr.engine import own_answers, silent_store

COMMAND: Final = (sys.executable, "-P", "-m", "fedct_flwr.engine.superlink")
"""Without options."""
_PROGRAM: Final = "flower-superlink"


def main() -> None:
    """Run ``flower-superlink``."""
    silent_store.install()
    own_answers.install()
    (program,) = entry_points(group="console_scripts", name=_PROGRAM)
    sys.argv[0] = _PROGRAM
    program.load()()


if __name__ == "__main__":
    main()
