"""What a silo answers where probabilities are asked for: once, the same again, and never under a promise."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

from client_app.main import app
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.silo.site import simulated_site
from fedct_flwr.types import ABSTAIN
from fedct_flwr.wire.codec import decode_reply, encode_instruction
from fedct_flwr.wire.content import Instruction, Soft, SoftTargets
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refusal
from tests.hospitals import STUDY, restart, write_silo_folder

pytestmark = pytest.mark.usefixtures("without_gate", "in_a_run")

RUN: dict[str, Any] = {"study": STUDY, "data": STUDY, "learner": "decision-tree", "save-models": False}
TERMS = simulated_site(RunConfig.from_flower(RUN), 0).terms
SIZE = TERMS.num_public
NETWORK = {"name": "tests.federation.learners.network", "packages": ["tests"], "local-steps": 5, "batch-size": 16}
LEARNERS = {"tree": {"name": "decision-tree", "params": {"max_depth": 3}}, "network": NETWORK}


class Silo:
    """A real silo, whose policy lets probabilities out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, **tables: dict[str, Any]) -> None:
        """Write ``silo.toml`` (again), and forget what the process keeps in memory."""
        write_silo_folder(self.folder, **{"learner": LEARNERS["tree"], "policy": {"kinds": ["soft"]}, **tables})
        restart()

    def ask(self, number: int, *, share: float | None = None, run: int = 1) -> tuple[bytes, Any]:
        """The bytes of an answer, and the probabilities or why there are none; ``share``: of class 0, to learn."""
        targets = None
        if share is not None:
            row = np.float32([share, 1 - share])
            targets = SoftTargets(Query(3, 100), np.tile(row, (100, 1)), 5.0)
        soft = Soft(1 if targets else 2, targets)
        instruction = Instruction(number, Query(5, SIZE), np.full(SIZE, ABSTAIN, dtype=np.int16), soft=soft)
        node = {"silo-file": str(self.folder / "silo.toml")}
        message = Message(to_record(encode_instruction(instruction, TERMS)), dst_node_id=7, message_type="train")
        payload = from_record(app(message, Context(run, 7, node, RecordDict(), dict(RUN))).content)
        return payload, decode_reply(payload, TERMS, instruction).outcome


@pytest.fixture
def silo(tmp_path: Path) -> Silo:
    silo = Silo(tmp_path / "cleveland")
    silo.write()
    return silo


@pytest.mark.parametrize("learner", LEARNERS)
def test_rows_sum_to_one_and_follow_the_targets(silo: Silo, learner: str) -> None:
    silo.write(learner=LEARNERS[learner])
    _, alone = silo.ask(1)
    assert alone.shape == (SIZE, 2)
    np.testing.assert_allclose(alone.sum(axis=1), 1, atol=1e-6)
    _, taught = silo.ask(2, share=0.9)
    assert taught[:, 0].mean() > alone[:, 0].mean()


def forget(*args: object) -> None:
    """As if the silo had been killed before its answer was on disk."""


def test_a_protection_does_not_cover_probabilities(silo: Silo, caplog: pytest.LogCaptureFixture) -> None:
    silo.write(policy={"kinds": ["hard"]}, privacy={"protection": "randomized-response"})
    with caplog.at_level(logging.ERROR):
        assert silo.ask(1)[1] is Refusal.CONFIG
    assert "asks for probabilities, which protection = 'randomized-response' does not cover" in caplog.text


@pytest.mark.parametrize("name", ["svm", "nearest-neighbors"])
def test_a_learner_without_probabilities_is_refused_and_the_silos_log_says_which_have_them(
    silo: Silo, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    silo.write(learner={"name": name})
    with caplog.at_level(logging.ERROR):
        assert silo.ask(1)[1] is Refusal.CONFIG
    assert "logistic-regression" in caplog.text


@pytest.mark.parametrize("row", [[np.nan, 1.0], [0.7, 0.7], [1.5, -0.5]])
def test_what_a_learner_says_that_are_no_probabilities_does_not_leave(
    silo: Silo, row: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: Callable[..., Any] = lambda self, X, num_classes: np.tile(row, (len(X), 1))  # noqa: E731
    monkeypatch.setattr("fedct_flwr.learners.sklearn.SklearnLearner.probabilities", rows)
    assert silo.ask(1)[1] in (Refusal.TRAINING_FAILED, Refusal.PROBABILITIES)
