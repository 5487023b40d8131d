"""Two records of a run compared: equal to the byte on the CPU of the recorded one, and within a tolerance on others."""

import json
import math
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_info

from tests.golden.files import path_of
from tests.golden.record import Record

SAME: Final = 0.0
"""Tolerance between runs on one CPU."""
LAST_DIGITS: Final = 1e-5
"""Between CPUs: of numbers alone, relative."""
ROUNDED: Final = 0.02
"""Between CPUs, where rounding decides about labels or bytes: of numbers, and the share of labels that may differ."""

ELSEWHERE: Final = "elsewhere"

_DIGESTS: Final = ("sha256", "base64", "question")


def machine() -> dict[str, Any]:
    """All that decides how floating-point numbers are rounded: the CPU, as libraries see it, and their versions."""
    import torch

    simd = np.show_config(mode="dicts")["SIMD Extensions"]  # type: ignore[call-overload]
    blas = {info["architecture"] for info in threadpool_info() if info["user_api"] == "blas"}
    return {
        "cpu": platform.machine(),
        "model": _model(),
        "simd": simd.get("found", []),
        "blas": sorted(blas),
        "torch": torch.backends.cpu.get_cpu_capability(),
        "versions": {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "torch")},
    }


def _model() -> list[str]:
    """Which CPU it is, where Linux says so: two with the same instructions may order a network's sums otherwise."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").partition("\n\n")[0].splitlines() if about.exists() else []
    facts = dict(line.replace("\t", "").split(":", 1) for line in lines if ":" in line)
    return [facts.get(name, "").strip() for name in ("vendor_id", "cpu family", "model")]


def same_machine(name: str = "") -> bool:
    """Whether numbers are rounded here as where this run was recorded; without a name: as where most of them were."""
    recorded = machines()
    return bool(recorded.pop(ELSEWHERE, {}).get(name, recorded) == machine())


def machines() -> dict[str, Any]:
    """Where most runs were recorded; and under ``ELSEWHERE``, by name, where single runs were that came later."""
    recorded: dict[str, Any] = json.loads(path_of("machine").read_text(encoding="utf-8"))
    return recorded


def tolerance(*, same_machine: bool, floats: bool) -> float:
    """What two records may differ by; ``floats``: of a run in which rounding decides about labels or bytes."""
    if same_machine:
        return SAME
    return ROUNDED if floats else LAST_DIGITS


def differences(recorded: Record, found: Record, allowed: float = SAME) -> Iterator[str]:
    """A sentence for each difference, the first one first: where it is, what is there and what was recorded.

    ``allowed`` is a ``tolerance``. With any above ``SAME``, digests of floating-point arrays do not count, and with
    ``ROUNDED`` none does: then lengths, names, types, shapes and norms must fit.
    """
    yield from _differ("", recorded, found, allowed)


def _differ(where: str, recorded: Any, found: Any, allowed: float) -> Iterator[str]:
    if isinstance(recorded, dict) and isinstance(found, dict):
        yield from _fields(where, recorded, found, allowed)
    elif isinstance(recorded, list) and isinstance(found, list):
        for number, (before, now) in enumerate(zip(recorded, found, strict=False), start=1):
            line = f"round {before['round']}" if isinstance(before, dict) and "round" in before else f"number {number}"
            yield from _differ(f"{where}, {line}", before, now, allowed)
        if len(recorded) != len(found):
            yield f"{where}: {len(found)} of them, recorded were {len(recorded)}"
    elif isinstance(recorded, str) and isinstance(found, str):
        yield from _texts(where, recorded, found, allowed)
    elif not _close(recorded, found, allowed):
        yield f"{where}: {json.dumps(found)}, recorded was {json.dumps(recorded)}"


def _fields(where: str, recorded: Record, found: Record, allowed: float) -> Iterator[str]:
    for name, before in recorded.items():
        place = f"{where}, {name}" if where else name
        if name not in found:
            yield f"{place}: is gone"
        elif not (allowed == ROUNDED and name in _DIGESTS):
            yield from _differ(place, before, found[name], allowed)
    for name in found:
        if name not in recorded:
            yield f"{where}, {name}: was not there" if where else f"{name}: was not there"
    if recorded.keys() == found.keys() and list(recorded) != list(found):
        yield f"{where or 'its parts'}: in the order {', '.join(found)}; recorded was {', '.join(recorded)}"


def _close(recorded: Any, found: Any, allowed: float) -> bool:
    if type(recorded) is not type(found):
        return False
    if allowed == SAME or isinstance(recorded, bool) or not isinstance(recorded, int | float):
        return json.dumps(recorded) == json.dumps(found)  # so that -0.0 is not 0.0, and NaN is itself
    return math.isclose(recorded, found, rel_tol=allowed, abs_tol=allowed)


def _texts(where: str, recorded: str, found: str, allowed: float) -> Iterator[str]:
    if recorded == found:
        return
    if where.endswith("codes") and len(recorded) == len(found):
        others = [place for place, (a, b) in enumerate(zip(recorded, found, strict=True)) if a != b]
        if allowed < ROUNDED or len(others) > ROUNDED * len(found):
            yield (
                f"{where}: {len(others)} of {len(found)} labels are others, first that of example {others[0]}, which "
                f"is {found[others[0]]} and was {recorded[others[0]]}"
            )
        return
    if not (allowed > SAME and _alike(recorded.split(), found.split(), allowed)):
        yield f"{where}: {found}; recorded was {recorded}"


def _alike(recorded: list[str], found: list[str], allowed: float) -> bool:
    """Whether two descriptions of bytes or of an array are the same but for what a CPU rounds."""
    if len(recorded) != len(found):
        return False
    floating = recorded[0].startswith("float")
    for kind, before, now in zip(["", *recorded], recorded, found, strict=False):
        if kind == "norm":
            same = _close(float(before.rstrip(",")), float(now.rstrip(",")), allowed)
        else:
            same = before == now or (kind in _DIGESTS and (floating or allowed == ROUNDED))
        if not same:
            return False
    return True
