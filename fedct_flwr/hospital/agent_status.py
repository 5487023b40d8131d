"""What the agent says of itself in ``agent.json``, for commands and health checks. Light, as they ask often.

docker/healthy.py, which stands alone, reads ``connected``, ``seen`` and ``heard`` too.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STATUS_FILE: Final = "agent.json"


@dataclass
class Status:
    """What ``agent.json`` in the silo's state says. Times are seconds since 1970.

    ``pid`` is 0 once the agent has stopped. ``seen``: last word from the SuperNode. ``heard``: last word from the
    coordinator to the SuperNode, None if that does not say. ``trouble``: what is wrong with the link to the
    coordinator, as ``hospital.link`` knows it, empty if nothing is. ``round``: the last one worked on.
    """

    pid: int = 0
    started: float = 0.0
    study: str = ""
    seen: float = 0.0
    connected: bool = False
    working: bool = False
    round: int = 0
    heard: float | None = None
    trouble: str = ""


def read_status(state: Path) -> Status:
    """What is said in the silo's ``state``; that of no agent if there is no file, or none that can be read."""
    try:
        said = json.loads((state / STATUS_FILE).read_text("utf-8"))
        return Status(
            pid=int(said["pid"]),
            started=float(said["started"]),
            study=str(said["study"]),
            seen=float(said["seen"]),
            connected=bool(said["connected"]),
            working=bool(said["working"]),
            round=int(said["round"]),
            # An agent of before they were said has neither.
            heard=None if said.get("heard") is None else float(said["heard"]),
            trouble=str(said.get("trouble", "")),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Status()
