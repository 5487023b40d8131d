"""The labels that silos release under each mechanism at a total epsilon, as votes on public examples."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.methods import one_thread_per_silo
from benchmarks.privacy_data import Federation, Sizes
from fedct_flwr.consensus.counting import tally
from fedct_flwr.labelers.dp_linear import DpLinearLabeler
from fedct_flwr.labelers.labeler import Asked, Labeler
from fedct_flwr.labelers.randomized import RandomizedLabeler
from fedct_flwr.privacy.accounting import calibrate
from fedct_flwr.privacy.mechanisms import Xor
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples, Features, HardLabels, VoteCounts

DELTA: Final = 1e-5
HIDDEN: Final = 64
"""Units of the network that is trained by DP-SGD."""
UNPROTECTED: Final = 1e6
"""Stands for an infinite epsilon at labelers that need a number."""

Votes = Callable[[Federation, float, Sizes, int], VoteCounts]
"""All silos' released votes ``(examples, classes)`` on the first public examples, at a total epsilon and seed."""


def no_labels(num_examples: int) -> HardLabels:
    """Abstentions: targets before the first round."""
    return np.full(num_examples, ABSTAIN, dtype=LABEL_DTYPE)


def _answer(
    labeler: Labeler, private: Examples, public: Features, votes: HardLabels, seed: int, silo: int
) -> HardLabels:
    labeler.reset()
    asked = Asked(private, public, no_labels(len(public)), votes, np.arange(len(public)))
    return labeler.answer(asked, SimulatedNoise(generator(seed, "noise", silo)))


def _votes(labeler: Labeler, silos: list[Examples], public: Features, federation: Federation, seed: int) -> VoteCounts:
    """What a labeler, reset between silos of as many records, makes of each, tallied."""
    fewest = min(silo.size for silo in silos)
    votes = [
        _answer(labeler, Examples(silo.X[:fewest], silo.y[:fewest]), public, federation.own_votes[number], seed, number)
        for number, silo in enumerate(silos)
    ]
    return tally(votes, len(public), len(federation.schema.classes))


def _dp_linear(federation: Federation, epsilon: float, sizes: Sizes, seed: int) -> VoteCounts:
    """Features and calibration are the same at all silos: one labeler, reset between them."""
    silos, classes = federation.raw_silos, len(federation.schema.classes)
    budget: dict[str, Any] = {"epsilon": min(epsilon, UNPROTECTED), "delta": DELTA}
    fewest = min(silo.size for silo in silos)
    labeler = DpLinearLabeler(federation.features, classes, num_units=fewest, **budget)
    return _votes(labeler, silos, federation.raw_public.X, federation, seed)


def _dp_sgd(federation: Federation, epsilon: float, sizes: Sizes, seed: int) -> VoteCounts:
    """A small network on the same features as the other models, trained once."""
    from fedct_flwr.labelers.dp_sgd import DpSgdLabeler, plan  # not at the top: only this needs torch

    one_thread_per_silo()
    public, classes = federation.public.X, len(federation.schema.classes)
    fewest = min(silo.size for silo in federation.silos)
    labeler = DpSgdLabeler(
        partial(_network, public.shape[1], classes),
        classes,
        num_records=fewest,
        batch_size=fewest,
        **plan(rounds=1),
        clipping_norm=1.0,
        epsilon=min(epsilon, UNPROTECTED),
        delta=DELTA,
        seed=seed,
        device="cpu",
    )
    return _votes(labeler, federation.silos, public, federation, seed)


def _network(inputs: int, classes: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))


def _randomized(federation: Federation, epsilon: float, sizes: Sizes, seed: int) -> VoteCounts:
    public, classes = federation.public.X[: sizes.paid], len(federation.schema.classes)
    own = [votes[: len(public)] for votes in federation.own_votes]
    if math.isinf(epsilon):
        return tally(own, len(public), classes)
    labeler = RandomizedLabeler(classes, num_queries=len(public), epsilon=epsilon, delta=DELTA)
    votes = [_answer(labeler, silo, public, own[number], seed, number) for number, silo in enumerate(federation.silos)]
    return tally(votes, len(public), classes)


def _xor(federation: Federation, epsilon: float, sizes: Sizes, seed: int) -> VoteCounts:
    classes, labels = len(federation.schema.classes), min(sizes.paid, federation.public.size)
    if math.isinf(epsilon):
        return _randomized(federation, epsilon, sizes, seed)
    between = (1 / epsilon, 2 * labels / epsilon)
    inverse = calibrate(lambda noise: Xor(classes, 1 / noise).event(labels), epsilon, DELTA, *between, quick=True)
    return xor_votes(federation, Xor(classes, 1 / inverse), labels, seed)


def xor_votes(federation: Federation, mechanism: Xor, labels: int, seed: int) -> VoteCounts:
    """Votes on the first ``labels`` public examples, tallied from the bits that XOR releases."""
    released = [
        mechanism(votes[:labels], SimulatedNoise(generator(seed, "noise", number)))
        for number, votes in enumerate(federation.own_votes)
    ]
    return np.sum(released, axis=0, dtype=np.int32)


MECHANISMS: Final[dict[str, Votes]] = {
    "dp-linear": _dp_linear,
    "dp-sgd": _dp_sgd,
    "randomized-response": _randomized,
    "xor": _xor,
}

PAPERS_MECHANISM: Final = "xor, the paper's"
PAPERS_BITS: Final = 3_000
PAPERS_EPSILON: Final = 0.1
PAPERS_ROUNDS: Final = 400
PAPERS_PUBLIC: Final = 50_000
PAPERS_XOR: Final = partial(Xor, theta=PAPERS_EPSILON / PAPERS_BITS)
