"""The wording of pages and helps, recorded once each: other tests assert what they are made from."""

from collections.abc import Mapping

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.silos import Fedct, Kit

PROTECTED: Mapping[str, Mapping[str, str]] = {
    "labels": {},
    "labels-dp-linear": {"protection": "dp-linear"},
    "labels-dp-sgd": {"protection": "dp-sgd"},
    "labels-randomized-response": {"protection": "randomized-response"},
    "labels-teachers": {"protection": "teachers"},
    "votes": {"kinds": "counts", "partitions": "3"},
    "probabilities": {"kinds": "soft"},
}
"""What a silo may let out."""


def let_out(kit: Kit, kinds: str = "hard", protection: str = "none", partitions: str = "0") -> None:
    kit.edit('kinds = ["hard"]', f'kinds = ["{kinds}"]')
    kit.edit('protection = "none"', f'protection = "{protection}"')
    kit.edit("partitions = 0", f"partitions = {partitions}")


@pytest.mark.parametrize("policy", PROTECTED.values(), ids=PROTECTED)
def test_what_an_approval_says(fedct: Fedct, kit: Kit, policy: dict[str, str], wording: SnapshotAssertion) -> None:
    let_out(kit, **policy)
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == 0, outcome.err
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert outcome.out == wording
