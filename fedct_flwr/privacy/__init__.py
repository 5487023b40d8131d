"""Differential privacy that holds: mechanisms, what they cost, and a ledger at the silo that says when it is enough."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.privacy.accounting import SLOW_QUERIES, calibrate, epsilon_in_time
    from fedct_flwr.privacy.budget import (
        WHOLE_SILO,
        Budget,
        PrivacyUnit,
        PrivacyWarning,
        budget_of,
        unit_of,
        weak_delta,
    )
    from fedct_flwr.privacy.ledger import Ledger, common_budget, share
    from fedct_flwr.privacy.mechanisms import ON_COUNTS, RandomizedResponse, noisy_max, repeated
    from fedct_flwr.privacy.noise_shares import VoteShares, fitting, noisiest, shares_for, spent_on_sum, surely_honest
    from fedct_flwr.privacy.randomness import SecureNoise, SimulatedNoise
    from fedct_flwr.privacy.tally_noise import dear_partitions, noise_for, noisy, spent_by, tally_mechanism

__all__ = [
    "ON_COUNTS", "SLOW_QUERIES", "WHOLE_SILO", "Budget", "Ledger", "PrivacyUnit", "PrivacyWarning",
    "RandomizedResponse", "SecureNoise", "SimulatedNoise", "VoteShares", "budget_of", "calibrate", "common_budget",
    "dear_partitions", "epsilon_in_time", "fitting", "noise_for", "noisiest", "noisy", "noisy_max", "repeated",
    "share", "shares_for", "spent_by", "spent_on_sum", "surely_honest", "tally_mechanism", "unit_of", "weak_delta",
]  # fmt: skip

__getattr__ = importing(__name__)
