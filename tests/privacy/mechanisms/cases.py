"""What every mechanism claims, written down a second time: its output probabilities, and the worst adjacent inputs."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedct_flwr.privacy.mechanisms import (
    MECHANISMS,
    Gaussian,
    Gumbel,
    Laplace,
    Mechanism,
    RandomizedResponse,
    Xor,
)

Output = int | tuple[int, ...]
Input = int | tuple[int, ...]
REACH = 60
"""Noise is written down up to here: less than 1e-12 of it lies beyond, with the scales used in tests."""


@dataclass(frozen=True)
class Case:
    """One mechanism on one public example, whose vote is a class, or the counts of all classes."""

    mechanism: Mechanism
    adjacent: tuple[tuple[Input, Input], ...]
    """Pairs of inputs that a unit can turn into each other; the worst are among them."""
    probabilities: Callable[[Input], Mapping[Output, float]]
    """Of each output, by the paper's formula."""
    claim: float
    """Epsilon per public example at delta = 0, by the docstring; infinite if it is none."""


def release(mechanism: Mechanism, vote: Input, times: int, noise) -> np.ndarray:
    """Independent outputs for the same vote, ``(times,)`` or ``(times, classes)``."""
    dtype = np.int16 if isinstance(vote, int) else np.int32
    return mechanism(np.tile(np.asarray(vote, dtype=dtype), (times,) + (1,) * np.ndim(vote)), noise)


def _xor(vote: Input, theta: float, classes: int) -> Mapping[Output, float]:
    flip = 1 / (1 + math.exp(theta))
    true = [int(c == vote) for c in range(classes)]
    return {
        bits: math.prod(flip if bit != truth else 1 - flip for bit, truth in zip(bits, true, strict=True))
        for bits in itertools.product((0, 1), repeat=classes)
    }


def _randomized_response(vote: Input, epsilon: float, classes: int) -> Mapping[Output, float]:
    if vote == -1:
        return dict.fromkeys(range(classes), 1 / classes)
    total = math.exp(epsilon) + classes - 1
    return {c: (math.exp(epsilon) if c == vote else 1) / total for c in range(classes)}


def _noisy_counts(vote: Input, log_weight: Callable[[int], float]) -> Mapping[Output, float]:
    """Of the first two counts; the third is left as drawn, its noise is independent and the same for both inputs."""
    noise = {x: math.exp(log_weight(x)) for x in range(-REACH, REACH + 1)}
    total = sum(noise.values())
    return {(vote[0] + x, vote[1] + y): noise[x] / total * noise[y] / total for x, y in itertools.product(noise, noise)}


def _gumbel(vote: Input, scale: float) -> Mapping[Output, float]:
    weights = [math.exp(count / scale) for count in vote]
    return {c: weight / sum(weights) for c, weight in enumerate(weights)}


def _pairs(*inputs: Input) -> tuple[tuple[Input, Input], ...]:
    return tuple(itertools.permutations(inputs, 2))


COUNTS = (((5, 4), (4, 5)), ((4, 5), (5, 4)), ((9, 0), (8, 1)), ((8, 1), (9, 0)), ((5, 3), (5, 4)), ((14, 1), (15, 0)))
THREE = (
    ((3, 1, 0), (2, 2, 0)),
    ((2, 2, 0), (3, 1, 0)),
    ((0, 4, 0), (0, 3, 1)),
    ((1, 1, 1), (0, 2, 1)),
    ((39, 1, 0), (40, 0, 0)),
)
TWICE = (((6, 3), (4, 5)), ((4, 5), (6, 3)), ((9, 0), (7, 2)), ((18, 2), (20, 0)))

CASES: dict[str, list[Case]] = {
    "xor": [
        Case(Xor(classes, theta), _pairs(-1, *range(classes)), lambda v, t=theta, k=classes: _xor(v, t, k), 2 * theta)
        for classes, theta in [(2, 0.3), (3, 1.0), (4, 0.01), (3, 3.0)]
    ],
    "randomized-response": [
        Case(
            RandomizedResponse(classes, epsilon),
            _pairs(-1, *range(classes)),
            lambda v, e=epsilon, k=classes: _randomized_response(v, e, k),
            epsilon,
        )
        for classes, epsilon in [(2, 0.5), (3, 1.0), (10, 0.1), (10, 4.0)]
    ],
    "laplace": [
        Case(
            Laplace(scale, votes),
            COUNTS if votes == 1 else TWICE,
            lambda v, s=scale: _noisy_counts(v, lambda x: -abs(x) / s),
            2 * votes / scale,
        )
        for scale, votes in [(1.0, 1), (2.0, 1), (2.0, 2)]
    ],
    "gaussian": [
        Case(
            Gaussian(scale, votes),
            COUNTS if votes == 1 else TWICE,
            lambda v, s=scale: _noisy_counts(v, lambda x: -x * x / (2 * s * s)),
            math.inf,
        )
        for scale, votes in [(1.0, 1), (3.0, 1), (3.0, 2)]
    ],
    "gumbel": [
        Case(Gumbel(scale, votes), adjacent, lambda v, s=scale: _gumbel(v, s), 2 * votes / scale)
        for scale, votes, adjacent in [(1.0, 1, COUNTS), (2.0, 2, TWICE), (4.0, 1, THREE), (0.5, 1, THREE)]
    ],
}

ALL = [(name, case) for name in MECHANISMS for case in CASES.get(name, [])]
IDS = [f"{name}-{number}" for name in MECHANISMS for number, _ in enumerate(CASES.get(name, []))]
