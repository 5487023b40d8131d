"""What one seat sees of one silo's candidates in one run, and the signals that attacks make of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.audit import attacks
from fedct_flwr.audit.across_refits import lira, rmia
from fedct_flwr.audit.attacks import Scores
from fedct_flwr.types import HardLabels

SHADOWS: Final = 3
"""Refits from which on attacks with shadow runs are tried."""


@dataclass(frozen=True, eq=False)
class Observation:
    """Of ``n`` candidates of one silo, whose true classes are ``y`` ``(n,)``; None for what the seat does not see."""

    y: HardLabels
    labels: NDArray[np.int16] | None = None
    """``(rounds, n)``: what was said of the candidates themselves."""
    probabilities: NDArray[np.float64] | None = None
    """``(rounds, n, classes)``."""
    others: NDArray[np.int16] | None = None
    """``(silos, rounds, n)``: what silos without these records said of them."""
    neighbours: NDArray[np.int16] | None = None
    """``(rounds, n, neighbours)``: what was said of the public examples nearest to them."""
    population: NDArray[np.float64] | None = None
    """``(strangers,)``: probabilities of the true class of records that the silo does not have."""
    boundary: Scores | None = None
    """``(n,)``: see ``attacks.boundary``."""
    gradient: Scores | None = None
    """``(n,)``: see ``attacks.gradient``."""


def signals(seen: Observation) -> Iterator[tuple[str, Scores]]:
    """Each attack that needs one run alone, by name, with its scores ``(n,)``."""
    if seen.neighbours is not None:
        yield "near", attacks.near(seen.neighbours, seen.y)
    if seen.labels is not None and len(seen.labels):
        yield "gap", attacks.gap(seen.labels, seen.y)
        own = attacks.agreement(seen.labels, seen.y)
        if len(seen.labels) > 1:
            yield "agreement", own
        if seen.others is not None and len(seen.others):
            theirs = np.stack([attacks.agreement(labels, seen.y) for labels in seen.others])
            yield "calibrated", attacks.calibrated(own, theirs)
    if seen.probabilities is not None and len(seen.probabilities):
        yield "confidence", attacks.confidence(attacks.true_probability(seen.probabilities, seen.y))
    if seen.boundary is not None:
        yield "boundary", seen.boundary
    if seen.gradient is not None:
        yield "gradient", seen.gradient


def all_scores(
    refits: Sequence[Mapping[str, Observation]], members: Mapping[str, NDArray[np.bool_]]
) -> dict[str, NDArray[np.float64]]:
    """Every attack of one seat over all refits: scores ``(refits, candidates)``, silos one after the other.

    ``refits`` have what is seen of each silo; ``members`` ``(refits, n)`` of each, which shadow runs may know.
    """
    found: dict[str, list[NDArray[np.float64]]] = {}
    for silo, bits in members.items():
        by_refit = [dict(signals(refit[silo])) for refit in refits]
        names = [name for name in by_refit[0] if all(name in one for one in by_refit)]
        own = {name: np.stack([one[name] for one in by_refit]) for name in names}
        if len(refits) >= SHADOWS and own:
            best = next(name for name in ("confidence", "calibrated", "agreement", "gap", "near") if name in own)
            own["lira"] = lira(own[best], bits)
            true, strangers = [_true(refit[silo]) for refit in refits], [refit[silo].population for refit in refits]
            if all(one is not None for one in (*true, *strangers)):
                own["rmia"] = rmia(np.array(true), np.array(strangers))
        for name, scores in own.items():
            found.setdefault(name, []).append(scores)
    # An attack that is possible on some silos alone is none on all.
    return {name: np.hstack(parts) for name, parts in found.items() if len(parts) == len(members)}


def _true(seen: Observation) -> Scores | None:
    return None if seen.probabilities is None else attacks.true_probability(seen.probabilities, seen.y)
