"""A game on sums with noise in shares: how well the sum that a coordinator opens hides how one silo voted.

The unit of the promise is a silo as a whole, so no record is held out here. The game draws the noise of one question's
sum anew many times, by the code with which silos draw it. In half of the sums one silo votes for one class everywhere,
in half for another: by the promise, its votes may be replaced by any others, and no two ways to vote differ more. Which
ones they are makes no difference, as noise does not depend on votes. The attacker is the strongest that is promised
against: the coordinator of the smallest sum that may be opened, who knows all other silos' votes and subtracts what the
silos that collude have added. Its guess is the best there is against this noise: by the sum along the silo's votes.
As it knows all that the noise was added to, it also tests how large the noise is.

Needs the extra privacy.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.audit.bounds import GAME_CONFIDENCE, Refuted, against_promise
from fedct_flwr.audit.noise_found import NoiseFound, find_noise
from fedct_flwr.audit.travelled import InSum
from fedct_flwr.config import RunConfig
from fedct_flwr.kinds import kind_of
from fedct_flwr.kinds.summed import Summed
from fedct_flwr.privacy.noise_shares import surely_honest
from fedct_flwr.privacy.randomness import Noise, simulated
from fedct_flwr.privacy.tally_shares import VoteShares
from fedct_flwr.scoring.intervals import Estimate, proportion
from fedct_flwr.seeding import generator
from fedct_flwr.silo.noisy_sum import with_share
from fedct_flwr.wire.content import Instruction, Terms

PAIRS: Final = 5000
"""Sums with one way to vote, and as many with the other."""
_TESTS: Final = 3
"""Two bounds and the test of the noise: each has a part of the risk."""
_MOST_NUMBERS: Final = 4_000_000
"""Of noise: sums of many examples are drawn less often."""
FEWEST_PAIRS: Final = 100
"""Also drawn where time is short."""


@dataclass(frozen=True)
class SumGame:
    """What so many ``sums`` tell of how one silo voted, where ``honest`` silos add noise and ``may_collude`` do not.

    ``epsilon`` at ``delta`` is promised to each silo. ``headline`` compares with that; ``profile`` with what the same
    noise promises at a larger delta, where fewer sums prove more. ``right`` is the share of right guesses. ``noise`` is
    how large the noise is, and ``priced`` the epsilon of the noise that silos were asked for.
    """

    epsilon: float
    delta: float
    headline: Refuted
    profile: Refuted
    noise: NoiseFound
    priced: float
    right: Estimate
    sums: int
    queries: int
    honest: int
    may_collude: int

    @property
    def lower(self) -> float:
        """Epsilon that is proven: at this delta too, as what a larger delta refutes, each smaller one does."""
        return max(self.headline.lower, self.profile.lower)

    @property
    def broken(self) -> bool:
        """Whether the promise does not hold."""
        return self.headline.broken or self.profile.broken or self.noise.broken or self.priced > self.epsilon


def play_sums(config: RunConfig, terms: Terms, num_silos: int, seen: InSum, seed: int, seconds: float) -> SumGame:
    """Play the game of one question of a run of ``num_silos``, as a silo was asked it (``seen``).

    No pair of sums is begun after ``seconds``, from the hundredth on. Raises ConfigError for impossible noise, and
    ValueError for a run whose silos add no noise.
    """
    method: Any = config.method
    plan, asked = method.noise, seen.asked
    if plan is None or not asked.noise:
        raise ValueError("the silos of this run add no noise to their sums")
    # By the run's own terms, and not by what a silo or its question says of them.
    honest = surely_honest(method.fewest_summands(num_silos), method.may_collude)
    promised = VoteShares(asked.noise, asked.query.size, terms.width, honest)
    priced = promised.price(plan.delta).upper
    # A gamma says how much noise there is, and epsilon follows.
    epsilon = priced if plan.gamma else plan.epsilon

    @lru_cache
    def at(delta: float) -> float:
        """What is promised at any delta."""
        found = promised.price(delta).upper
        return min(found, epsilon) if delta >= plan.delta else found

    inside, outside, noise, grid = _draw(asked, terms, seen.honest, honest, seed, seconds)
    confidence = 1 - (1 - GAME_CONFIDENCE) / _TESTS
    right = float((inside > 0).sum() + (outside < 0).sum() + ((inside == 0).sum() + (outside == 0).sum()) / 2)
    return SumGame(
        epsilon,
        plan.delta,
        against_promise(inside, outside, lambda _: epsilon, confidence),
        against_promise(inside, outside, at, confidence),
        find_noise(noise, asked.noise * grid, confidence),
        priced,
        proportion(right, 2.0 * len(inside)),
        2 * len(inside),
        asked.query.size,
        honest,
        method.may_collude,
    )


class _Drawn(NamedTuple):
    """Scores ``(pairs,)`` of sums with the one way to vote and the other, and the noise, in units of ``grid``."""

    inside: NDArray[np.float64]
    outside: NDArray[np.float64]
    noise: NDArray[np.float64]
    grid: int


def _draw(asked: Instruction, terms: Terms, believed: int, honest: int, seed: int, seconds: float) -> _Drawn:
    """Sums of both ways to vote, and the attacker's scores: what is along the votes.

    ``believed``: honest silos that a silo counts on when it draws its share; ``honest``: those that draw one.
    """
    kind = kind_of(asked, terms)
    if not isinstance(kind, Summed):
        raise TypeError(f"a question for {kind.name} has no sum")
    shares = VoteShares(asked.noise, asked.query.size, terms.width, believed)
    play = _play(kind, asked, terms, shares, honest)
    end = time.monotonic() + seconds
    scores: dict[bool, list[float]] = {True: [], False: []}
    noise: list[NDArray[np.float64]] = []
    enough = max(FEWEST_PAIRS, _MOST_NUMBERS // (2 * asked.query.size * terms.width))
    for number in range(min(PAIRS, enough)):
        if number >= FEWEST_PAIRS and time.monotonic() > end:
            break
        for there, found in scores.items():
            opened, votes = play(there, simulated(generator(seed, "noise of sums", int(there), number)))
            found.append(float((opened[:, 0] - opened[:, 1]).sum()))
            noise.append((opened - votes * shares.grid).astype(np.float64))
    return _Drawn(np.array(scores[True]), np.array(scores[False]), np.stack(noise), shares.grid)


def _play(
    kind: Summed, asked: Instruction, terms: Terms, shares: VoteShares, honest: int
) -> Callable[[bool, Noise], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """One sum ``(examples, classes)``, with the one way to vote (``True``) or the other, and the votes in it."""
    size, width = asked.query.size, terms.width
    one, other, nothing = (np.zeros((size, width), dtype=np.uint64) for _ in range(3))
    one[:, 0], other[:, 1] = 1, 1

    def play(there: bool, noise: Noise) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # The others' votes are known, and are left out; so are summands of those who collude.
        own = one if there else other
        added = [own, *[nothing] * (honest - 1)]
        total = sum((with_share(votes.ravel(), shares, noise) for votes in added), nothing.ravel())
        return np.asarray(kind.opened(total, asked, terms, honest), dtype=np.int64), own.astype(np.int64)

    return play
