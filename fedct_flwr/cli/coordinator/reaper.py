"""Run a command, and kill it and all that it started when standard input ends.

Only the coordinator's process holds the other end of standard input. So the reaper notices its death in every order of
events. Bubblewrap's ``--die-with-parent`` does not: a process whose parent dies before it asks for the signal stays
(https://github.com/containers/bubblewrap/issues/633). A bare Python runs this file, so it imports nothing else of ours.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""An init system may send these to all processes of a service. The reaper has to be the last."""
_POLL_SECONDS = 0.2
_KILLED = 128
"""A shell adds this to the number of the signal that ended a command."""


def main() -> None:
    """Exit with the command's exit code, once none of its processes is left."""
    # A descendant that loses its parent becomes a child of this process.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    command = sys.argv[1:]
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[nothing], setsigdef=_IGNORED)
    # The descriptors are for the command, and some lead to keys.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    ended = status = 0
    while not ended and not select.select([0], [], [], _POLL_SECONDS)[0]:
        ended, status = os.waitpid(pid, os.WNOHANG)
    _end_children()
    code = os.waitstatus_to_exitcode(status) if ended else -signal.SIGKILL
    sys.exit(_KILLED - code if code < 0 else code)


def _end_children() -> None:
    """Kill all children and wait for them, then for their children, until none is left."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in children.read_text("ascii").split():
                os.kill(int(child), signal.SIGKILL)
            os.waitpid(-1, 0)


if __name__ == "__main__":
    main()
