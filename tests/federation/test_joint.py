"""The joint labeler: silos train one labeler by noisy secure sums, and learn its labels."""

import json
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import Context, Message
from syrupy.assertion import SnapshotAssertion

from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.algorithms.joint import JointLabeler
from fedct_flwr.cli.report import write_at_end
from fedct_flwr.config.run import RunConfig
from fedct_flwr.labelers.joint_linear import JointLinear, joint_labeler, train_together
from fedct_flwr.privacy.budget import DATA_SET
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.noise_shares import NoiseShares
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.secure_sum.messages import Step
from fedct_flwr.types import RunError
from fedct_flwr.wire.content import STEPS as JOINT_STEPS
from fedct_flwr.wire.messages import from_record
from tests.federation.conftest import Federation
from tests.federation.test_one_shot import labels, result
from tests.sentences import sentence

RUN: dict[str, Any] = {"algorithm": JointLabeler.name, "num_server_rounds": 10, "epsilon": 1.0}
SILOS = ("cleveland", "budapest", "zurich", "long-beach")


def spent(folder: RunFolder, silo: str) -> tuple[float, int]:
    with Ledger(folder.silo_privacy(silo)) as ledger:
        found = ledger.spent("test", DATA_SET)
    assert found is not None
    return found.epsilon.upper, found.charges


def test_a_run_trains_in_sums_and_charges_every_silo_within_its_budget(federation: Federation) -> None:
    folder = federation.run(**RUN, student="logistic-regression", save_models=True)
    rounds = folder.rounds()
    assert [len(line["silos"]) for line in rounds] == [4] * (JOINT_STEPS + 1)
    assert "agreement" not in rounds[-1]
    assert "" not in labels(folder)
    told = result(folder)["joint"]
    assert (told["epsilon"], told["honest"], told["steps"]) == (1.0, 3, JOINT_STEPS)
    for silo in SILOS:
        epsilon, charges = spent(folder, silo)
        assert charges == JOINT_STEPS
        assert 0.9 < epsilon <= 1.0
        assert list((folder.path / "models").glob(f"{silo}.*"))
    card = json.loads((folder.path / "models" / "global.json").read_text())
    assert card["privacy"]["epsilon"] == 1.0


def test_without_noise_labels_are_those_of_training_in_the_open(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NoiseShares, "share", lambda shares, noise: np.zeros(shares.numbers, dtype=np.int64))
    folder = federation.run(**RUN)
    config = RunConfig.from_flower(folder.settings())
    dataset = datasets.load(config)
    labeler = joint_labeler(cast(Any, config.method).plan(config, dataset), dataset.public, dataset.schema)
    assert isinstance(labeler, JointLinear)
    weights = train_together(labeler, [silo.private for silo in dataset.silos], [cast(Any, None)] * len(SILOS))
    names = [dataset.schema.classes[label] for label in labeler.label(weights, dataset.public.X)]
    assert names == labels(folder)


def test_a_stopped_run_goes_on_and_nothing_is_charged_twice(federation: Federation, wording: SnapshotAssertion) -> None:
    federation.behave[2] = federation.away(3)
    assert sentence(RunError, federation.run, **RUN) == wording
    federation.behave.clear()
    folder = federation.run(**RUN, resume=True)
    assert [line["round"] for line in folder.rounds()] == list(range(1, JOINT_STEPS + 2))
    assert "lost" not in result(folder)["joint"]
    assert {spent(folder, silo)[1] for silo in SILOS} == {JOINT_STEPS}


@pytest.mark.parametrize(("step", "fewest"), [(Step.INVITE, 4), (Step.ASK, 3), (Step.ASK, 4), (Step.OPEN, 3)])
def test_a_silo_that_dies_in_a_sum_costs_one_step_at_most(federation: Federation, step: Step, fewest: int) -> None:
    died: list[bytes] = []

    def once(message: Message, context: Context) -> Message:
        if message.metadata.group_id in ("1", "2") and from_record(message.content)[4] == step and not died:
            died.append(from_record(message.content))
            raise RuntimeError
        return client_app(message, context)

    federation.behave_in_sums[2] = once
    folder = federation.run(**RUN, min_summands=fewest)
    assert died
    # Shares of three open a sum of four.
    missing = step is not Step.OPEN
    assert result(folder)["joint"].get("lost", 0) == (fewest == 4 and missing)
    assert [len(line["silos"]) for line in folder.rounds()[:-1]].count(4) == JOINT_STEPS - missing
    assert {spent(folder, silo)[1] for silo in SILOS} == {JOINT_STEPS}
    assert write_at_end(folder)


@pytest.mark.parametrize(
    ("lost", "why"), [(lambda step: True, "3 steps in a row"), (lambda step: step % 3, "steps have no secure sum")]
)
def test_a_run_ends_where_most_steps_are_lost(federation: Federation, lost: Any, why: str) -> None:
    def behave(message: Message, context: Context) -> Message:
        if lost(int(message.metadata.group_id)) and from_record(message.content)[4] == Step.ASK:
            raise RuntimeError
        return client_app(message, context)

    federation.behave_in_sums[2] = behave
    assert why in sentence(RunError, federation.run, **RUN, min_summands=4)
