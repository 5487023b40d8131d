"""Settings that are gone: what serves now, by the key, or by ``key = value`` where only that value is gone.

A key in a table has the table's name and a point before it: ``policy.max-rounds``.
"""

from collections.abc import Mapping
from typing import Any, Final

_CALIBRATION: Final = (
    "leave it out, or name scikit-learn's CalibratedClassifierCV around a classifier as the learner, by import path"
)
_JOINT: Final = "set it to 'linear', or to 'additive' where both ends of a column may mean the same"
GONE: Final[dict[str, str]] = {
    "keep-days": "leave it out; to shrink the SuperLink's database see docs/operations.md",
    "algorithm = fedct-agreement": "set it to 'fedct-dawid-skene', which was ahead wherever both were measured",
    "mechanism = confident-gaussian": "set it to 'gaussian', and the quorum by algorithm 'fedct-qualified'",
    "calibration": _CALIBRATION,
    "learner.calibration": _CALIBRATION,
    "policy.max-local-rounds": "leave it out: warm-up-rounds under [learner] is the silo's own setting",
    "joint-labeler = auto": _JOINT,
    "joint.labeler = auto": _JOINT,
}

ELSEWHERE: Final[dict[str, str]] = {"random-state": "set seed, from which all random numbers follow"}
"""What people know from other libraries."""


def why_gone(raw: Mapping[str, Any], path: str = "") -> str:
    """The sentence for the first key or value in ``raw``, or in its tables, that is gone; empty: there is none."""
    for key, value in raw.items():
        here = f"{path}.{key}" if path else key
        for name in (here, f"{here} = {value}"):
            if name in GONE:
                return f"{name!r} is gone: {GONE[name]}"
        if here in ELSEWHERE:
            return f"{here!r} has another name here: {ELSEWHERE[here]}"
        if isinstance(value, Mapping) and (why := why_gone(value, here)):
            return why
    return ""
