"""Record the golden runs anew: all of them, or those that are named. No test does it.

    python -m tests.golden [NAME ...]

Look at the differences before you commit them: each is something that silos, coordinators or readers of run folders
will see.
"""

import json
import logging
import sys
import tempfile
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from tests.golden import approvals, runs
from tests.golden.compare import ELSEWHERE, machine, machines, same_machine
from tests.golden.files import RECORDED, path_of, to_text
from tests.golden.record import record


def main(names: list[str]) -> None:
    """Write the files of these runs, or all files."""
    logging.disable(logging.CRITICAL)
    # Sums of floating-point numbers depend on how many threads share them; so do tests.
    torch.set_num_threads(1)
    threadpool_limits(1)
    known = [*runs.ALL, approvals.NAME]
    if unknown := sorted(set(names) - set(known)):
        raise SystemExit(f"no golden run is called {', '.join(unknown)}: there are {', '.join(known)}")
    if "pytest" in sys.modules:
        raise SystemExit("golden runs are not recorded by tests")
    # Of an approval no number is rounded.
    rounded = [name for name in names if name != approvals.NAME and path_of(name).exists()]
    changed = [name for name in rounded if not same_machine(name)]
    if changed:
        raise SystemExit(
            f"{', '.join(changed)} was recorded on another CPU, or with other versions: record all, or new ones only"
        )
    recorded = machines() if names else machine()
    if not names:
        for path in RECORDED.glob("*.json"):
            path.unlink()
    for name in names or known:
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            found = approvals.record(here) if name == approvals.NAME else record(runs.ALL[name], here)
        path_of(name).write_text(to_text(found), encoding="utf-8")
        if names and name != approvals.NAME and not same_machine(name):
            recorded.setdefault(ELSEWHERE, {})[name] = machine()
        print(f"{name}: {path_of(name).stat().st_size} bytes")
    path_of("machine").write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
