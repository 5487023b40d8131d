"""What is recorded is complete, and small."""

import pytest

from fedct_flwr.algorithms.table import ALGORITHMS
from fedct_flwr.config.privacy import OF_LABELS, PROTECTIONS
from fedct_flwr.wire.kinds import GRADIENTS, HISTOGRAMS
from tests.golden import approvals
from tests.golden.checked import same_machine
from tests.golden.compare import SAME, tolerance
from tests.golden.files import LARGEST, RECORDED
from tests.golden.runs import ALL, COMMON, PROTECTED


def test_there_is_a_run_of_each_algorithm() -> None:
    default = "fedct-dawid-skene"
    assert "algorithm" not in COMMON
    assert {golden.settings.get("algorithm", default) for golden in ALL.values()} == {
        # Messages of sums are masked with keys that are drawn anew: tests/federation/test_joint.py has those runs, and
        # tests/hospital/test_drawing.py those of real silos alone.
        name
        for name, algorithm in ALGORITHMS.items()
        if algorithm.kind not in (GRADIENTS, HISTOGRAMS)
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
