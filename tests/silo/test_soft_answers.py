"""What a silo answers where probabilities are asked for: once, the same again, and never under a promise."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.types import ABSTAIN, Refusal
from fedct_flwr.wire.content import Instruction, Query, Soft, SoftTargets
from tests.silo.real import TERMS, RealSilo

pytestmark = pytest.mark.usefixtures("without_gate", "in_a_run")

SIZE = TERMS.num_public
NETWORK = {"name": "tests.federation.learners.network", "packages": ["tests"], "local-steps": 5, "batch-size": 16}
LEARNERS = {"tree": {"name": "decision-tree", "params": {"max_depth": 3}}, "network": NETWORK}


@pytest.fixture
def silo(tmp_path: Path) -> RealSilo:
    """One whose policy lets probabilities out."""
    return RealSilo(tmp_path / "cleveland", learner=LEARNERS["tree"], policy={"kinds": ["soft"]})


def ask(silo: RealSilo, number: int, share: float | None = None) -> Any:
    """The probabilities, or why there are none; ``share``: of class 0, to learn."""
    targets = None
    if share is not None:
        targets = SoftTargets(Query(3, 100), np.tile(np.float32([share, 1 - share]), (100, 1)), 5.0)
    soft = Soft(targets)
    nothing = np.full(SIZE, ABSTAIN, dtype=np.int16)
    return silo.answer(Instruction(number, Query(5, SIZE), nothing, soft=soft))[1]


@pytest.mark.parametrize("learner", LEARNERS)
def test_rows_sum_to_one_and_follow_the_targets(silo: RealSilo, learner: str) -> None:
    silo.write(learner=LEARNERS[learner])
    alone = ask(silo, 1)
    assert alone.shape == (SIZE, 2)
    np.testing.assert_allclose(alone.sum(axis=1), 1, atol=1e-6)
    taught = ask(silo, 2, 0.9)
    assert taught[:, 0].mean() > alone[:, 0].mean()


def test_a_protection_does_not_cover_probabilities(silo: RealSilo, caplog: pytest.LogCaptureFixture) -> None:
    silo.write(policy={"kinds": ["hard"]}, privacy={"protection": "randomized-response"})
    with caplog.at_level(logging.ERROR):
        assert ask(silo, 1) is Refusal.CONFIG
    assert "asks for probabilities, which protection = 'randomized-response' does not cover" in caplog.text
