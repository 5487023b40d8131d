"""What each test of this folder does: make a run once more, and compare it with what was recorded."""

import json
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tests.golden.compare import SAME, differences, machine, tolerance
from tests.golden.files import path_of, read
from tests.golden.record import Record, record
from tests.golden.runs import ALL

ELSEWHERE: Final = "elsewhere"

_MOST: Final = 3


def check_run(name: str, folder: Path) -> None:
    """Fail where the run is no longer what was recorded, with the first differences."""
    golden = ALL[name]
    check(name, record(golden, folder), tolerance(same_machine=same_machine(name), floats=golden.floats))


def check(name: str, found: Record, allowed: float = SAME) -> None:
    """Fail where a record is no longer the one that was kept under this name."""
    # As it would be read again: tuples are lists there.
    all_of_them = differences(read(name), json.loads(json.dumps(found)), allowed)
    first = list(islice(all_of_them, _MOST))
    if first:
        others = sum(1 for _ in all_of_them)
        said = "\n  ".join([*first, *([f"and {others} more"] if others else [])])
        remedy = f"if that is meant, run 'python -m tests.golden {name}' and say why in the commit"
        raise AssertionError(f"golden run {name!r} is another one now:\n  {said}\n{remedy}")


def same_machine(name: str = "") -> bool:
    """Whether numbers are rounded here as where this run was recorded; without a name: as where most of them were."""
    recorded = machines()
    return bool(recorded.pop(ELSEWHERE, {}).get(name, recorded) == machine())


def machines() -> dict[str, Any]:
    """Where most runs were recorded; and under ``ELSEWHERE``, by name, where single runs were that came later."""
    recorded: dict[str, Any] = json.loads(path_of("machine").read_text(encoding="utf-8"))
    return recorded
