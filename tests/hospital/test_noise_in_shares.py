"""Real silos that let nothing out but sums with noise: gate, client app, ledger and sheet together."""

import hashlib
import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.coordinator import summing
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.opening import open_gate
from fedct_flwr.privacy.budget import WHOLE_SILO, PrivacyUnit
from fedct_flwr.privacy.noise_shares import VoteShares
from fedct_flwr.secure_sum.terms import Shape, shape_of_votes
from fedct_flwr.silo.release import account_of
from fedct_flwr.types import ConfigError, Refusal
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.content import Instruction
from fedct_flwr.wire.sums import SUMS_WITH_NOISE
from tests.hospital.gates import RUN
from tests.hospital.test_adding import Hospital, opened, summed
from tests.hospitals import restart, write_silo_folder

pytestmark = pytest.mark.usefixtures("in_a_run")

NOISE = 10.0
"""Standard deviation, in votes of a silo."""
HONEST = 2
"""Of three silos at least, one may collude."""


@pytest.fixture
def hospitals(tmp_path: Path) -> Iterator[dict[str, Hospital]]:
    with ExitStack() as stack:
        yield opened(tmp_path, stack, sum_epsilon=20.0)


def asked(hospital: Hospital, noise: float = NOISE, number: int = 1, votes: int = 0) -> Instruction:
    return replace(hospital.silo.instruction(number, 200, votes=votes), summed=True, noise=noise)


def subject_of(hospital: Hospital, question: Instruction) -> bytes:
    return hashlib.sha256(encode_instruction(question, hospital.silo.terms)).digest()


def shape_of(hospital: Hospital, question: Instruction) -> Shape:
    return shape_of_votes(SUMS_WITH_NOISE["hard"], question, hospital.silo.terms, subject_of(hospital, question))


def kept(hospital: Hospital, question: Instruction) -> np.ndarray[Any, Any]:
    return hospital.kept(shape_of(hospital, question))


def test_the_sum_has_the_silos_noise_and_each_ledger_its_charge(hospitals: dict[str, Hospital]) -> None:
    sums = []
    for number in (1, 2):
        for hospital in hospitals.values():
            question = asked(hospital, number=number)
            assert isinstance(hospital.ask(question), bytes)
        total = summed(hospitals, shape_of(hospital, question)).total
        sums.append(
            summing.opened(SUMS_WITH_NOISE["hard"], total, question, hospital.silo.terms, len(hospitals), HONEST)
        )
    shares = VoteShares(NOISE, 200, 2, HONEST)
    # Four silos each add a share of which two are enough; votes of four vary by little beside that.
    wanted = shares.share_scale * math.sqrt(len(hospitals)) / shares.grid
    for total in sums:
        assert wanted * 0.8 < (total / shares.grid).std() < wanted * 1.2
    assert (sums[0] != sums[1]).mean() > 0.5
    for hospital in hospitals.values():
        found = account_of(hospital.silo.config, hospital.silo.terms.study, WHOLE_SILO)
        assert (found.charges, found.unit, found.budget) == (2, PrivacyUnit.SILO, 20.0)
        assert 5 < found.epsilon <= 20


def test_a_share_for_sums_of_more_silos_is_in_no_sum_of_fewer(tmp_path: Path) -> None:
    with ExitStack() as stack:
        more = "\n[sums]\nmin-summands = 4\n"
        hospital = opened(tmp_path, stack, agreed=more, sum_epsilon=20.0)["cleveland"]
        question, log = asked(hospital), hospital.gate._log
        assert isinstance(hospital.ask(question), bytes)
        before, subject = kept(hospital, question), subject_of(hospital, question).hex()
        # One silo less in a sum, as when a hospital leaves the study: each adds more noise.
        path = hospital.silo.config.study / "study.toml"
        path.write_text(path.read_text().replace(more, "\n[sums]\nmin-summands = 3\n"))
        study = read_study(hospital.silo.config.study)
        approve(log, hospital.silo.config, study)
        hospital.silo.study, hospital.gate = study, open_gate(hospital.silo.config, study, log, lambda: True)
        restart()
        assert hospital.ask(question) is Refusal.ROUND
        assert subject not in hospital.gate._usage.ready
        # A run that is resumed is another one to Flower, and asks the same.
        assert isinstance(hospital.ask(question, RUN + 1), bytes)
        assert subject in hospital.gate._usage.ready
        assert (kept(hospital, question) != before).mean() > 0.5
        assert hospital.charges(WHOLE_SILO) == 2
        after = kept(hospital, question)
        assert isinstance(hospital.ask(question, RUN + 2), bytes)
        np.testing.assert_array_equal(kept(hospital, question), after)


@pytest.mark.parametrize(
    "policy",
    [
        {"kinds": ["sum", "hard"], "sum-epsilon": 1.0},
        {"kinds": ["sum"], "sum-epsilon": 1.0, "metrics": True},
        {"kinds": ["hard"], "sum-epsilon": 1.0},
    ],
)
def test_a_promise_of_sums_with_noise_lets_nothing_else_out(tmp_path: Path, policy: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="nothing but sums with noise leaves"):
        SiloConfig.read_toml(write_silo_folder(tmp_path, policy=policy))
