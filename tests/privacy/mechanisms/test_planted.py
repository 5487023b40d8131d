"""Mechanisms that break their claim, each in a way that somebody once did: the audit must find them all."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.mechanisms import Gumbel, Laplace, RandomizedResponse, Xor
from fedct_flwr.privacy.randomness import SecureNoise
from tests.privacy.mechanisms import cases
from tests.privacy.mechanisms.cases import CASES, Case, Input


@dataclass(frozen=True)
class HalfPrice(Xor):
    """One changed label taken for one bit, as in a footnote of the paper."""

    def event(self, num_queries):
        return super().event(num_queries).event


@dataclass(frozen=True)
class SensitivityOne(Laplace):
    """A moved vote taken for a change of one."""

    def event(self, num_queries):
        return Laplace(self.scale * 2).event(num_queries)


@dataclass(frozen=True)
class HalfNoise(RandomizedResponse):
    """Keeps the true label more often than it says."""

    def __call__(self, votes, noise):
        return RandomizedResponse(self.num_classes, 2 * self.epsilon)(votes, noise)


@dataclass(frozen=True)
class HonestAbstention(RandomizedResponse):
    """Lets abstentions through."""

    def __call__(self, votes, noise):
        return np.where(votes < 0, votes, super().__call__(votes, noise))


@dataclass(frozen=True)
class NoiselessMaximum(Gumbel):
    """Forgets the noise where one class leads by three votes."""

    def __call__(self, votes, noise):
        ordered = np.sort(votes, axis=1)
        return np.where(
            ordered[:, -1] - ordered[:, -2] >= 3, votes.argmax(axis=1), super().__call__(votes, noise)
        ).astype(np.int16)


def broken(kind: type, name: str, number: int = 0) -> Case:
    right = CASES[name][number]
    fields = {field.name: getattr(right.mechanism, field.name) for field in dataclasses.fields(right.mechanism)}
    return dataclasses.replace(right, mechanism=kind(**fields))


@pytest.mark.parametrize("number", range(4))
def test_a_price_for_half_the_bits_is_found(number: int) -> None:
    case = broken(HalfPrice, "xor", number)
    assert epsilon(case.mechanism.event(1), 0).upper < case.claim
    assert cases.breaks_its_event(case)
    cheap = dataclasses.replace(case, claim=case.claim / 2)
    assert cases.breaks_its_ratio(cheap)


def test_a_price_for_half_the_sensitivity_is_found() -> None:
    assert cases.breaks_its_event(broken(SensitivityOne, "laplace"))


@pytest.mark.parametrize(
    ("kind", "name", "number", "vote"),
    [
        (HalfNoise, "randomized-response", 1, 0),
        (HonestAbstention, "randomized-response", 1, -1),
        (NoiselessMaximum, "gumbel", 2, (3, 0, 0)),
    ],
)
def test_noise_that_is_too_small_or_left_out_is_found_by_its_distribution(
    kind: type, name: str, number: int, vote: Input
) -> None:
    case = broken(kind, name, number)
    assert cases.is_distributed_otherwise(cases.outputs(case, vote, SecureNoise()), case.probabilities(vote))
