"""A silo's share of the noise on a sum of votes, charged to its ledger before it is drawn."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config import Policy, SiloConfig
from fedct_flwr.kinds.summed import BITS
from fedct_flwr.privacy.budget import Budget, PrivacyUnit, Spending
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.noise_shares import VoteShares
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.silo.release import Purse, account, ledger_refusals
from fedct_flwr.wire.content import Instruction, Terms

WHOLE_SILO: Final = "whole silo"
"""What the ledger calls all that a silo has, in accounts whose unit is the silo; records have another account."""


def budget_of_sums(policy: Policy) -> Budget:
    """What a real silo lets sums tell of it, in total."""
    return Budget(policy.sum_epsilon, policy.sum_delta, PrivacyUnit.SILO)


def account_of_sums(config: SiloConfig, study: str) -> Spending:
    """What a real silo's sums have spent, recomputed from its ledger. Makes no ledger. Raises LedgerError."""
    return account(Ledger(config.state), config.silo, study, budget_of_sums(config.policy), WHOLE_SILO)


def approve_sums(config: SiloConfig, study: str, terms: bytes) -> None:
    """Put the budget of ``silo.toml`` for sums in force, on the approval of these terms. Raises LedgerError."""
    with Ledger(config.state) as ledger:
        ledger.approve(study, WHOLE_SILO, budget_of_sums(config.policy), terms.hex())


@dataclass(frozen=True)
class NoiseAdder:
    """What a silo adds noise with, in a ``purse`` whose budget holds unless ``most`` says what a sum may cost.

    ``honest``: silos whose shares count, by the silo's own terms of sums and not by the coordinator's word.
    """

    purse: Purse
    honest: int
    most: Callable[[VoteShares], Budget] | None = None


def with_noise(
    vector: NDArray[np.uint64], instruction: Instruction, terms: Terms, adder: NoiseAdder, payload: bytes
) -> NDArray[np.uint64]:
    """Votes ``(examples * classes,)`` on a grid with the silo's share of the noise, modulo 2^32, for a sum.

    Charged and drawn once for a ``payload``. Raises Refused (PRIVACY_BUDGET, LEDGER), ConfigError.
    """
    shares = VoteShares(instruction.noise, instruction.query.size, terms.width, adder.honest)
    question = hashlib.sha256(b"fedct votes with noise 1" + payload).digest()
    # The fewer silos are counted on, the larger is a share: that of more of them is no answer to the same question.
    paid = hashlib.sha256(b"fedct share of noise 1" + adder.honest.to_bytes(2, "big") + question).digest()

    def draw() -> bytes:
        return bytes(with_share(vector, shares, adder.purse.noise(question)).astype("<u8").tobytes())

    with ledger_refusals(), adder.purse.ledger as ledger:
        budget = adder.most(shares) if adder.most else adder.purse.budget
        drawn = ledger.answer(terms.study, WHOLE_SILO, budget, shares.event(), paid, draw)
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64)


def with_share(vector: NDArray[np.uint64], shares: VoteShares, noise: Noise) -> NDArray[np.uint64]:
    """Votes ``(examples * classes,)`` on the grid and one silo's share of the noise, modulo 2^32. Charges nothing."""
    on_grid = vector.astype(np.int64) * shares.grid + shares.share(noise).ravel()
    return np.asarray(on_grid & (2**BITS - 1), dtype=np.uint64)
