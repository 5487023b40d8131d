"""Health check of one service: exits with 0 if it answers. Standard library alone, as a SuperNode has nothing else.

``healthy.py https://superlink:8000/health [CA]`` asks an address, and a SuperNode that says so when it last heard from
its coordinator; ``healthy.py agent.json`` looks whether the agent has heard from its SuperNode lately, and that from
the coordinator, and whether anything may leave.
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
_SILENT_HEADER = "fedct-link-silent"


def answers(address: str, ca: str | None) -> bool:
    """Whether the address answers with 200, and with a certificate of this authority if one is given.

    A SuperNode's answer says for how long its coordinator has been silent, and that must not be long.
    """
    context = ssl.create_default_context(cafile=ca) if ca else None
    # The addresses are those in compose.yaml, and never a proxy's.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    with opener.open(address, timeout=_PATIENCE_SECONDS) as answer:
        silent = float(answer.headers.get(_SILENT_HEADER, 0))
        # Also for what is no number of seconds, such as nan.
        heard = 0 <= silent < _SILENT_SECONDS
        if not heard:
            print(f"no word from the coordinator for {silent:.0f} s")
        return bool(answer.status == 200 and heard)


def has_contact(path: str) -> bool:
    """Whether the agent's status says so, and lately. Its fields are those of fedct_flwr/hospital/agent_status.py."""
    status = json.loads(Path(path).read_text("utf-8"))
    now, heard = time.time(), status.get("heard")
    if heard is not None and now - heard >= _SILENT_SECONDS:
        print(f"no word from the coordinator for {now - heard:.0f} s")
        return False
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
