"""Before anything runs: what label quality noise leaves, estimated on stand-in labels with the real mechanisms.

Nobody's records are looked at. Silos' labels are drawn at random as wrong as they are said to be, perturbed by the real
mechanisms with the noise that the real accounting asks for, and tallied and decided as in a run.

What is assumed:

- **A learning curve**: a model trained on n records is wrong with probability proportional to n ** -decay. The
  default, .16, is what our own results on FashionMNIST follow (``benchmarks/results``): wrong with 100 records in .300,
  500 in .217, 2,000 in .174, 10,000 in .142.
- **Shared mistakes**: a model trained on all silos' records labels each example; a silo's own model repeats that label,
  a silo's teachers repeat the silo's, or each strays from it independently, to any other class alike, just as often as
  the learning curve says. So no consensus is better than the model that all silos could train together.
- **Classes alike**: all are as frequent and as hard.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pkgutil import resolve_name
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.random import Generator

from fedct_flwr.config.mechanisms import NoisePlan
from fedct_flwr.config.protections import PROTECTIONS
from fedct_flwr.config.run import WHOLE_SET_UP_TO
from fedct_flwr.consensus.counting import plurality
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.calibration import calibrate
from fedct_flwr.privacy.mechanisms import Gaussian, Gumbel, RandomizedResponse, Xor
from fedct_flwr.privacy.mechanisms.base import check_classes
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.privacy.tally_shares import noisiest, shares_for
from fedct_flwr.secure_sum.terms import FEWEST_SILOS
from fedct_flwr.secure_sum.terms import MOST_SILOS as SUMMED_SILOS
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, HardLabels, VoteCounts

DECAY: Final = 0.16
"""Of the learning curve: how fast mistakes become fewer with the number of records."""

MOST_SILOS: Final = 10_000
"""That are simulated one by one; votes of more tell nothing new."""

Release = Callable[[HardLabels, SimulatedNoise, Generator], VoteCounts]
"""What a silo lets out where its own model labels ``(examples,)``: votes ``(examples, classes)``."""

Draft: TypeAlias = tuple[str, Release]
"""How much noise there is, in words, and what it does: what ``Protection.drafts`` make of a ``Plan`` and a seed."""

_LABELS_DRAWN: Final = 200_000
"""By all silos together, for one estimate."""
_MOST_EXAMPLES: Final = 20_000
_FEWEST_EXAMPLES: Final = 1_000
_NUM_TEACHERS: Final = (10, 25, 50, 100, 250, 500, 1000)
_RECORDS_PER_TEACHER: Final = 10
_EXAMPLES_TO_CHOOSE_BY: Final = 2_000
_MARGIN: Final = 1.01
"""So that noise that is enough on paper is enough in floating point."""
_CLEARLY: Final = 0.25
"""Of the way from guessing to the silo's own model: less is noise."""


@dataclass(frozen=True)
class Plan:
    """A study as it is planned; sizes are of one silo.

    ``accuracy`` is that of a silo's own model, ``majority`` the share of the largest class. ``queries`` are the labels
    that a silo is asked for in total; 0 stands for all public examples in each round. ``epsilon`` and ``delta`` are in
    total, per record. An infinite epsilon is no noise. ``teachers`` = 0: as many as serve best. ``may_collude`` is of
    silos that add up secure sums. Raises ConfigError.
    """

    num_silos: int
    num_records: int
    num_public: int
    num_classes: int
    accuracy: float
    epsilon: float = 1.0
    delta: float = 1e-5
    rounds: int = 10
    queries: int = 0
    majority: float = 0.0
    teachers: int = 0
    decay: float = DECAY
    may_collude: int = 1

    def __post_init__(self) -> None:
        check_classes(self.num_classes)
        if math.isinf(self.epsilon) and self.epsilon > 0:
            Budget(1.0, self.delta)
        else:
            Budget(self.epsilon, self.delta)
        if self.delta == 0:
            raise ConfigError("with delta = 0 there is little but randomized response to plan: set it to 1e-5, say")
        for name, value, least in (
            ("silos", self.num_silos, 1),
            ("records", self.num_records, 2),
            ("public examples", self.num_public, 1),
            ("rounds", self.rounds, 1),
            ("queries", self.queries, 0),
            ("teachers", self.teachers, 0),
            ("silos that may collude", self.may_collude, 0),
        ):
            if value < least:
                raise ConfigError(f"the number of {name} is {value}; set it to {least} or more")
        if self.num_silos > MOST_SILOS:
            raise ConfigError(f"the number of silos is {self.num_silos}; set it to {MOST_SILOS} or fewer")
        if self.queries > self.rounds * self.num_public:
            raise ConfigError(
                f"{self.queries} queries are more than {self.rounds} rounds ask of {self.num_public} public examples; "
                f"set them to {self.rounds * self.num_public} or fewer"
            )
        if self.teachers > self.num_records:
            raise ConfigError(
                f"{self.num_records} records cannot be split over {self.teachers} teachers; set fewer teachers"
            )
        if not 0 <= self.majority < 1:
            raise ConfigError(f"the majority class's share is {self.majority}; set it to a number in [0, 1)")
        if not 0 < self.decay <= 1:
            raise ConfigError(f"the learning curve's decay is {self.decay}; set it to a number in (0, 1]")
        if not self.guess < self.accuracy < 1:
            raise ConfigError(
                f"the accuracy of a silo's own model is {self.accuracy:g}; set it above guessing, which has "
                f"{self.guess:.3g}, and below 1"
            )

    @property
    def guess(self) -> float:
        """The accuracy of who has seen no data: of the largest class."""
        return max(self.majority, 1 / self.num_classes)

    @property
    def labels(self) -> int:
        """Labels that a silo is asked for in total."""
        return self.queries or self.rounds * self.num_public

    @property
    def examples(self) -> int:
        """Different public examples among them, at most."""
        return min(self.labels, self.num_public)

    @property
    def honest(self) -> int:
        """Silos whose noise counts in secure sums of all silos; 0 where these are too few or too many for any."""
        fewest = max(FEWEST_SILOS, self.may_collude + 2)
        return self.num_silos - self.may_collude if fewest <= self.num_silos <= SUMMED_SILOS else 0

    def accuracy_with(self, num_records: float) -> float:
        """What the learning curve says of a model trained on so many records; never worse than a class at random."""
        wrong: float = (1 - self.accuracy) * (num_records / self.num_records) ** -self.decay
        return max(1 - wrong, 1 / self.num_classes)

    def warnings(self) -> list[str]:
        """What is allowed and says little, as sentences."""
        budget = Budget(self.epsilon if math.isfinite(self.epsilon) else 1.0, self.delta)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            budget.warn_if_weak(self.num_records)
        return [str(warning.message) for warning in found]


class Verdict(StrEnum):
    """What a consensus of this quality is good for."""

    USEFUL = "useful"
    COSTS_ACCURACY = "costs accuracy"
    NOISE = "noise"


class Estimate(NamedTuple):
    """Accuracy of the labels of one silo and of the consensus, by a mechanism; ``noise`` says how much there is.

    ``silo`` is None where only sums over the silos can be read.
    """

    mechanism: str
    noise: str
    silo: float | None
    consensus: float
    verdict: Verdict


def judged(plan: Plan, mechanism: str, noise: str, silo: float | None, consensus: float) -> Estimate:
    """The estimate with its verdict.

    Noise: not clearly above guessing, which is a quarter of the way to a silo's own model. Costs accuracy: below that
    model, so that who learns from the consensus unlearns.
    """
    if consensus < plan.guess + _CLEARLY * (plan.accuracy - plan.guess):
        verdict = Verdict.NOISE
    else:
        verdict = Verdict.COSTS_ACCURACY if consensus < plan.accuracy else Verdict.USEFUL
    return Estimate(mechanism, noise, silo, consensus, verdict)


def estimates(plan: Plan, seed: int) -> Iterator[Estimate]:
    """Each mechanism's in turn, the one without noise first. The same for the same plan and seed."""
    yield _estimate(plan, "no protection", "none", _as_it_is(plan), seed)
    drafts = {name: path for protection in PROTECTIONS.values() for name, path in protection.drafts.items()}
    for name, make in {**{name: resolve_name(path) for name, path in drafts.items()}, "xor": _xor}.items():
        try:
            noise, release = make(plan, seed)
        except ConfigError:
            # No noise of a mechanism's own is enough: only labels that depend on nothing are.
            noise, release = "more than can be drawn", _at_random(plan)
        yield _estimate(plan, name, noise, release, seed)


def votes_in_sums(plan: Plan, seed: int, num_features: int) -> list[Estimate]:
    """Labels by PATE's noise, of which silos add shares in a secure sum; asked once, about so many as a run asks about.

    One estimate. The plan's epsilon is then each silo's as a whole. None where silos cannot add up.
    """
    if not plan.honest:
        return []
    name = "dp-pate, whole silos"
    if math.isinf(plan.epsilon):
        return [_estimate(plan, name, "none", _as_it_is(plan), seed, on_sum=lambda counts, *_: counts)]
    try:
        wanted = NoisePlan("gaussian", plan.epsilon, plan.delta)
        asked = min(plan.examples, WHOLE_SET_UP_TO)
        shares = shares_for(wanted, 1, asked, plan.num_classes, plan.honest, quick=True)
    except ConfigError:
        too_much = "more than can be drawn"
        return [_estimate(plan, name, too_much, _at_random(plan), seed, on_sum=lambda counts, *_: counts)]
    of_all = shares.share_scale * math.sqrt(plan.num_silos)

    def add(counts: VoteCounts, noise: SimulatedNoise, rng: Generator) -> VoteCounts:
        noisy = counts.astype(np.int64) * shares.grid + noise.discrete_gaussian(of_all, counts.shape)
        return _ballots(noisiest(noisy, np.empty(0, dtype=LABEL_DTYPE), rng), plan.num_classes)

    return [_estimate(plan, name, f"scale {shares.scale:.3g} votes", _as_it_is(plan), seed, on_sum=add)]


def symmetric(accuracy: float, of: float, num_classes: int) -> float:
    """How often a label is repeated that is right with probability ``of``, for what results to be ``accuracy``.

    Otherwise it strays to each other class alike. Never less than at random.

    >>> symmetric(0.9, of=1.0, num_classes=2)
    0.9
    """
    back = (1 - of) / (num_classes - 1)  # a wrong label that strays is right with this probability
    if of <= back:
        return 1 / num_classes
    return min(1.0, max((accuracy - back) / (of - back), 1 / num_classes))


def _estimate(
    plan: Plan, name: str, noise: str, release: Release, seed: int, on_sum: "Noisy | None" = None
) -> Estimate:
    """Draw labels, perturb, tally and decide. The stand-in labels are the same for all mechanisms.

    ``on_sum`` perturbs the sum of the silos' votes, which is then all that can be read.
    """
    examples = min(_MOST_EXAMPLES, max(_FEWEST_EXAMPLES, _LABELS_DRAWN // plan.num_silos))
    labels, lots = (generator(seed, "budget", scope) for scope in ("labels", "lots"))
    perturbed = generator(seed, "budget", "noise")
    truth = labels.integers(plan.num_classes, size=examples).astype(LABEL_DTYPE)
    together = plan.accuracy_with(plan.num_records * plan.num_silos)
    best = _strayed(truth, together, plan.num_classes, labels)
    own = symmetric(plan.accuracy, of=together, num_classes=plan.num_classes)
    counts: VoteCounts = np.zeros((examples, plan.num_classes), dtype=np.int32)
    right = 0.0
    for _ in range(plan.num_silos):
        of_silo = _strayed(best, own, plan.num_classes, labels)
        votes = release(of_silo, SimulatedNoise(perturbed), perturbed)
        right += float((_decide(votes, lots) == truth).mean())
        counts += votes
    if on_sum:
        counts = on_sum(counts, SimulatedNoise(perturbed), perturbed)
    consensus = float((_decide(counts, lots) == truth).mean())
    return judged(plan, name, noise, None if on_sum else right / plan.num_silos, consensus)


def _strayed(labels: HardLabels, kept: float, num_classes: int, rng: Generator) -> HardLabels:
    """Each label with probability ``kept``, else one of the others."""
    steps = rng.integers(1, num_classes, size=len(labels)) * (rng.random(len(labels)) >= kept)
    strayed: HardLabels = ((labels + steps) % num_classes).astype(LABEL_DTYPE)
    return strayed


def _decide(votes: VoteCounts, lots: Generator) -> HardLabels:
    """As a run does; where nobody voted, as who has to label all the same."""
    labels = plurality(votes, np.full(len(votes), ABSTAIN, dtype=LABEL_DTYPE), lots)
    nobody = labels == ABSTAIN
    labels[nobody] = lots.integers(votes.shape[1], size=int(nobody.sum()))
    return labels


def _ballots(labels: HardLabels, num_classes: int) -> VoteCounts:
    ballots: VoteCounts = np.eye(num_classes, dtype=np.int32)[labels]
    return ballots


def _as_it_is(plan: Plan) -> Release:
    return lambda labels, noise, rng: _ballots(labels, plan.num_classes)


def _at_random(plan: Plan) -> Release:
    return lambda labels, noise, rng: _ballots(
        rng.integers(plan.num_classes, size=len(labels)).astype(LABEL_DTYPE), plan.num_classes
    )


def randomized_response(plan: Plan, seed: int) -> Draft:
    """Each label randomized, as dearly as the budget allows."""

    def draft(found: RandomizedResponse) -> Draft:
        return (
            f"epsilon {found.epsilon:.2g} a label",
            lambda labels, noise, rng: _ballots(found(labels, noise), plan.num_classes),
        )

    return _by_answer(plan, lambda epsilon: RandomizedResponse(plan.num_classes, epsilon), draft)


def _xor(plan: Plan, seed: int) -> Draft:
    def draft(found: Xor) -> Draft:
        return f"epsilon {found.theta:.2g} a bit", lambda labels, noise, rng: found(labels, noise).astype(np.int32)

    return _by_answer(plan, lambda theta: Xor(plan.num_classes, theta), draft)


_Paid = TypeVar("_Paid", RandomizedResponse, Xor)


def _by_answer(plan: Plan, make: Callable[[float], _Paid], draft: Callable[[_Paid], Draft]) -> Draft:
    """The labels as they are where no budget bounds them, or else by the best mechanism that it covers."""
    return ("none", _as_it_is(plan)) if math.isinf(plan.epsilon) else draft(_affordable(plan, make))


def _affordable(plan: Plan, make: Callable[[float], _Paid]) -> _Paid:
    """The mechanism of the largest epsilon of one answer that the budget covers for all planned labels.

    That is between its equal part of two bits a label and all of the budget.
    """
    inverse = calibrate(
        lambda noise: make(1 / noise).event(plan.labels),
        plan.epsilon,
        plan.delta,
        1 / plan.epsilon,
        _MARGIN * 2 * plan.labels / plan.epsilon,
        quick=True,
    )
    return make(1 / inverse)


def gumbel_teachers(plan: Plan, seed: int) -> Draft:
    """A vote of teachers under the least Gumbel noise that the budget allows."""
    if math.isinf(plan.epsilon):
        return _teachers(plan, "", None, seed)
    high = _MARGIN * 2 * plan.examples / plan.epsilon
    scale = calibrate(
        lambda noise: Gumbel(noise).event(plan.examples), plan.epsilon, plan.delta, high * 1e-6, high, quick=True
    )
    gumbel = Gumbel(scale)
    return _teachers(
        plan,
        f", scale {scale:.3g} votes",
        lambda counts, noise, rng: _ballots(gumbel(counts, noise), plan.num_classes),
        seed,
    )


def gaussian_teachers(plan: Plan, seed: int) -> Draft:
    """A vote of teachers under the least discrete Gaussian noise that the budget allows."""
    if math.isinf(plan.epsilon):
        return _teachers(plan, "", None, seed)
    # zCDP of rho costs at most rho + 2 sqrt(rho ln(1/delta)), here within epsilon.
    log = math.log(1 / plan.delta)
    rho = (math.sqrt(log + plan.epsilon) - math.sqrt(log)) ** 2
    high = 2 * math.sqrt(plan.examples / rho)
    scale = calibrate(
        lambda noise: Gaussian(noise).event(plan.examples), plan.epsilon, plan.delta, high / 100, high, quick=True
    )
    gaussian = Gaussian(scale)

    def decide(counts: VoteCounts, noise: SimulatedNoise, rng: Generator) -> VoteCounts:
        noisy = gaussian(counts, noise)
        # What plurality makes of counts below zero is not the same.
        return _ballots(_decide((noisy - noisy.min(axis=1, keepdims=True)).astype(np.int32), rng), plan.num_classes)

    return _teachers(plan, f", scale {scale:.3g} votes", decide, seed)


Noisy = Callable[[VoteCounts, SimulatedNoise, Generator], VoteCounts]


def _teachers(plan: Plan, about: str, noisy: Noisy | None, seed: int) -> Draft:
    """A silo's teachers, as many as are planned or serve one silo best."""

    def release_of(number: int) -> Release:
        repeats = symmetric(
            plan.accuracy_with(plan.num_records / number), of=plan.accuracy, num_classes=plan.num_classes
        )
        others = [(1 - repeats) / (plan.num_classes - 1)] * (plan.num_classes - 1)

        def release(labels: HardLabels, noise: SimulatedNoise, rng: Generator) -> VoteCounts:
            by_distance = rng.multinomial(number, [repeats, *others], size=len(labels)).astype(np.int32)
            where = (np.arange(plan.num_classes) - labels[:, None]) % plan.num_classes
            counts: VoteCounts = np.take_along_axis(by_distance, where, axis=1)
            return _ballots(_decide(counts, rng), plan.num_classes) if noisy is None else noisy(counts, noise, rng)

        return release

    def repeated(number: int) -> float:
        """How often one silo's teachers give its own model's label back."""
        rng = generator(seed, "budget", "teachers", number)
        labels = rng.integers(plan.num_classes, size=_EXAMPLES_TO_CHOOSE_BY).astype(LABEL_DTYPE)
        votes = release_of(number)(labels, SimulatedNoise(rng), rng)
        return float((votes.argmax(axis=1) == labels).mean())

    most = plan.num_records // max(_RECORDS_PER_TEACHER, 2 * plan.num_classes)
    tried = [plan.teachers] if plan.teachers else [n for n in _NUM_TEACHERS if n <= most] or [max(1, most)]
    best = tried[0] if len(tried) == 1 else max(tried, key=repeated)
    return f"{best} teachers{about}", release_of(best)
