"""Flower's SuperLink, which tells no silo what another one has sent and takes no answer in another's name.

Takes Flower's own options. The patches are ``object_isolation`` and ``sender_check``.
"""

import sys
from importlib.metadata import entry_points
from typing import Final

from fedct_flwr.flower import sender_check
from fedct_flwr.flower.object_isolation import Isolation

COMMAND: Final = (sys.executable, "-P", "-m", "fedct_flwr.flower.superlink")
"""Without options."""
_PROGRAM: Final = "flower-superlink"


def main() -> None:
    """Run ``flower-superlink``."""
    Isolation().install()
    # Before all other handlers, which believe the sender.
    sender_check.install()
    (program,) = entry_points(group="console_scripts", name=_PROGRAM)
    sys.argv[0] = _PROGRAM
    program.load()()


if __name__ == "__main__":
    main()
