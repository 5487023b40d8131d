"""Health check of one service: exits with 0 if it answers. Standard library alone, as a SuperNode has nothing else.

``healthy.py https://superlink:8000/health [CA]`` asks an address; ``healthy.py link.json`` looks whether a SuperNode
has heard from its coordinator lately; ``healthy.py agent.json`` whether the agent has heard from its SuperNode, and
whether anything may leave.
"""

import json
import ssl
import sys
import time
import urllib.request
from pathlib import Path

_PATIENCE_SECONDS = 5.0
_LATELY_SECONDS = 30.0
# As in fedct_flwr/hospital/link.py.
_SILENT_SECONDS = 60.0


def answers(address: str, ca: str | None) -> bool:
    """Whether the address answers with 200, and with a certificate of this authority if one is given."""
    context = ssl.create_default_context(cafile=ca) if ca else None
    # The addresses are those in compose.yaml, and never a proxy's.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    with opener.open(address, timeout=_PATIENCE_SECONDS) as answer:
        return bool(answer.status == 200)


def has_contact(path: str) -> bool:
    """Whether a status says so. Its fields are those of ``LinkStatus`` and ``Status`` in fedct_flwr/hospital."""
    status, now = json.loads(Path(path).read_text("utf-8")), time.time()
    if "heard" in status:
        silent = now - status["heard"]
        if silent >= _SILENT_SECONDS:
            print(f"no answer from the coordinator for {silent:.0f} s")
        return silent < _SILENT_SECONDS and abs(now - status["written"]) < _SILENT_SECONDS
    if shut := status.get("shut"):
        print(f"nothing can leave ({shut}): see what the agent says")
        return False
    # A time to come is one of before a clock was set back, by an agent that has written nothing since.
    return bool(status["connected"]) and abs(now - status["seen"]) < _LATELY_SECONDS


if __name__ == "__main__":
    try:
        what, *ca = sys.argv[1:]
        healthy = answers(what, ca[0] if ca else None) if "://" in what else has_contact(what)
    except (OSError, ValueError, KeyError, TypeError) as error:
        # The kind of error is enough: what an answer says may be anybody's words.
        print(type(error).__name__)
        healthy = False
    sys.exit(not healthy)
