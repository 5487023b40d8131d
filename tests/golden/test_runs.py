"""Runs and approvals are what they were.

On the machine of the recording all is equal to the byte. On another CPU rounding may differ: see ``compare.py``.
"""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fedct_flwr.algorithms import ALGORITHMS
from fedct_flwr.config.privacy import OF_LABELS, PROTECTIONS
from fedct_flwr.wire.sums import GRADIENTS, HISTOGRAMS, PATIENTS
from tests.golden import approvals
from tests.golden.compare import LAST_DIGITS, ROUNDED, SAME, differences, same_machine, tolerance
from tests.golden.files import LARGEST, RECORDED, read
from tests.golden.record import Record, record
from tests.golden.runs import ALL, COMMON, PROTECTED


def check(name: str, found: Record, allowed: float = SAME) -> None:
    """Fail where a record is no longer the one that was kept under this name."""
    # As it would be read again: tuples are lists there.
    all_of_them = differences(read(name), json.loads(json.dumps(found)), allowed)
    first = list(islice(all_of_them, 3))
    if first:
        others = sum(1 for _ in all_of_them)
        said = "\n  ".join([*first, *([f"and {others} more"] if others else [])])
        remedy = f"if that is meant, run 'python -m tests.golden {name}' and say why in the commit"
        raise AssertionError(f"golden run {name!r} is another one now:\n  {said}\n{remedy}")


@pytest.mark.parametrize("name", ALL)
def test_the_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    golden = ALL[name]
    check(name, record(golden, tmp_path), tolerance(same_machine=same_machine(name), floats=golden.floats))


def test_what_an_approval_signs_is_what_it_was(tmp_path: Path) -> None:
    check(approvals.NAME, approvals.record(tmp_path))


# --- what is recorded


def test_there_is_a_run_of_each_algorithm() -> None:
    default = "fedct-dawid-skene"
    assert "algorithm" not in COMMON
    assert {golden.settings.get("algorithm", default) for golden in ALL.values()} == {
        # Messages of sums are masked with keys that are drawn anew: tests/federation/test_joint.py has those runs, and
        # tests/hospital has those of real silos alone.
        name
        for name, algorithm in ALGORITHMS.items()
        if algorithm.kind not in (GRADIENTS, HISTOGRAMS, PATIENTS)
    }


def test_there_is_a_run_and_an_approval_of_each_protection() -> None:
    runs = {golden.settings.get("protection", "none") for golden in ALL.values()}
    approved = {tables.get("privacy", {}).get("protection", "none") for tables in approvals.SILOS.values()}
    assert runs == set(OF_LABELS)
    assert approved == set(PROTECTIONS)
    assert {name for name, golden in ALL.items() if "protection" in golden.settings} <= set(PROTECTED)


def test_there_is_a_file_for_each_run_and_no_other() -> None:
    assert {path.stem for path in RECORDED.iterdir()} == {*ALL, approvals.NAME, "machine"}


def test_all_files_together_are_small() -> None:
    assert sum(path.stat().st_size for path in RECORDED.iterdir()) < LARGEST


def test_runs_are_compared_to_the_byte() -> None:
    """Says so where they are not: see ``compare.py`` for what holds then."""
    if not same_machine():
        pytest.skip("the golden runs were recorded on another CPU or with other versions: rounded numbers may differ")
    assert {tolerance(same_machine=same_machine(), floats=floats) for floats in (False, True)} == {SAME}


# --- the comparison


KEPT: dict[str, Any] = {
    "message": "3 bytes, base64 AAEC",
    "agreement": 0.75,
    "absent": {},
    "codes": "01" * 50,
}
CHANGES: dict[str, tuple[Any, str, tuple[bool, bool]]] = {
    "message": ("3 bytes, base64 AAkC", "3 bytes, base64 AAkC; recorded was 3 bytes, base64 AAEC", (False, True)),
    "agreement": (0.750000001, "0.750000001, recorded was 0.75", (True, True)),
    "absent": ({"a": "late"}, "a: was not there", (False, False)),
    "codes": ("00" + "01" * 49, "1 of 100 labels are others", (False, True)),
}


@pytest.mark.parametrize("key", CHANGES)
def test_a_difference_is_said_with_its_place(key: str) -> None:
    value, said, forgiven = CHANGES[key]
    found = {**KEPT, key: value}
    (sentence,) = differences(KEPT, found, SAME)
    assert sentence.startswith(key)
    assert said in sentence
    assert tuple(not list(differences(KEPT, found, allowed)) for allowed in (LAST_DIGITS, ROUNDED)) == forgiven
