"""The audit of a run: refits of its settings with members held out, attacked from two seats.

``rehearse`` is that of one silo before anything is approved, on its own machine: nothing is sent, charged or kept.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr import privacy
from fedct_flwr.audit.adversaries import COORDINATOR, MODEL, Seen, seen_in, seen_in_model
from fedct_flwr.audit.attacks import Observation, all_scores
from fedct_flwr.audit.rerun import rerun
from fedct_flwr.audit.success import auc, bound_of_run, guesses
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData, first_of, take, unit_of_each
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.learners import Choosing, Learner
from fedct_flwr.learners.build import learner_for
from fedct_flwr.scoring.intervals import Estimate
from fedct_flwr.silo.site import Site
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, DataError, HardLabels, SiloName, generator, random_state

FEWEST: Final = 10
"""Candidates in all: with fewer, no interval says anything."""
_MOST_OF_A_SILO: Final = 0.5
Candidates: TypeAlias = Mapping[SiloName, NDArray[np.intp]]
"""Positions ``(n,)`` among each silo's private records."""
Members: TypeAlias = Mapping[SiloName, NDArray[np.bool_]]
"""Which of each silo's candidates ``(n,)`` it has."""
REFITS: Final = 8
CANDIDATES: Final = 200
MINUTES: Final = 10.0
_MOST_EXPOSED: Final = 10
_READS_OTHER_REFITS: Final = "lira"
"""The bound on epsilon needs guesses that read one output alone."""

Progress = Callable[[Iterable[int]], Iterable[int]]


@dataclass(frozen=True)
class How:
    """``refits`` with about ``candidates`` over all silos, none begun after ``minutes``."""

    refits: int = REFITS
    candidates: int = CANDIDATES
    minutes: float = MINUTES
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.refits < 2:
            raise ConfigError(f"refits is {self.refits}: set it to 2 or more, as one chooses thresholds for the other")
        if self.candidates < 1:
            raise ConfigError(f"candidates is {self.candidates}: set it to 10 or more, as fewer say next to nothing")
        if not 0 <= self.minutes < math.inf:
            raise ConfigError(f"minutes is {self.minutes:g}: set it to 0 or more; at 0 there are two refits")

    def begun(self, progress: Progress) -> Iterator[int]:
        """The numbers of the refits: two at least, and of the others those that time is left for."""
        started = time.monotonic()
        for number in progress(range(self.refits)):
            if number > 1 and time.monotonic() - started > 60 * self.minutes:
                return
            yield number


@dataclass(frozen=True)
class OfSeat:
    """Areas under the curve of all attacks from one seat, and the share of members and others guessed ``right``."""

    seat: str
    attacks: Mapping[str, Estimate]
    right: Estimate

    @property
    def strongest(self) -> tuple[str, Estimate]:
        """The attack with the largest area, which is the paper's VUL."""
        return max(self.attacks.items(), key=lambda item: item[1].value)


@dataclass(frozen=True)
class Exposed:
    """A record by its position among its silo's private ones, guessed right in ``right`` of the refits."""

    silo: SiloName
    record: int
    right: int


class About(NamedTuple):
    """The attacked run; ``epsilon`` is each record's guarantee, None without one.

    ``noisy_sums``: silos add noise to secure sums, of which the coordinator sees the opened ones.
    """

    algorithm: str
    protection: str
    epsilon: float | None
    delta: float
    noisy_sums: bool = False


@dataclass(frozen=True)
class Audit:
    """Results of an audit. ``silos`` are from the coordinator's seat, by the strongest attack there.

    ``lower_epsilon`` is a valid lower bound where the run promises epsilon, else None. ``exposed`` begins with the
    record that is guessed right most often.
    """

    about: About
    lower_epsilon: float | None
    records: Mapping[SiloName, int]
    candidates: int
    refits: int
    seats: tuple[OfSeat, ...]
    silos: Mapping[SiloName, Estimate]
    exposed: tuple[Exposed, ...]
    seconds: float

    def of(self, seat: str) -> OfSeat:
        """Success of one adversary. Raises KeyError for one that sees nothing."""
        return {found.seat: found for found in self.seats}[seat]


def attack(config: RunConfig, dataset: FederatedDataset, how: How, *, progress: Progress = iter) -> Audit:
    """Refit the run and attack it. Raises ConfigError or DataError for a run that cannot be audited, RunError."""
    dataset.schema.outcome.check_classes(
        f"the run predicts a number ({dataset.schema.outcome.named}), and membership attacks here are for classes: "
        "audit a run with classes"
    )

    def see(candidates: Candidates, members: Members, number: int) -> Seen:
        held = with_members(dataset, candidates, members)
        refit = rerun(config, held, random_state(how.seed, "refit", number))
        return seen_in(refit, {silo.name: take(silo.private, candidates[silo.name]) for silo in dataset.silos})

    about = About(config.algorithm, config.protection, _promised(config), config.delta, config.method.noise_in_shares)
    return play(about, how, dataset.silos, see, progress)


def play(
    about: About,
    how: How,
    silos: Sequence[SiloData],
    see: Callable[[Candidates, Members, int], Seen],
    progress: Progress = iter,
) -> Audit:
    """The game: each refit trains on the members that a coin drew, and all that each seat does ``see`` is attacked.

    Raises DataError where the coordinator's seat sees nothing of a candidate.
    """
    started, names = time.monotonic(), [silo.name for silo in silos]
    candidates = choose(silos, how.candidates, how.seed)
    drawn: list[Members] = []
    refits: list[Seen] = []
    for number in how.begun(progress):
        members = draw(candidates, silos, generator(how.seed, "members", number))
        refits.append(see(candidates, members, number))
        drawn.append(members)
    bits = {silo: np.stack([members[silo] for members in drawn]) for silo in names}
    together = np.hstack([bits[silo] for silo in names])
    scores = {seat: found for seat in refits[0] if (found := all_scores([seen[seat] for seen in refits], bits))}
    if COORDINATOR not in scores:
        raise DataError("nothing travelled that says anything of a candidate: audit a run whose silos answer")
    guessed = {seat: guesses(found, together) for seat, found in scores.items()}
    seats = tuple(
        OfSeat(
            seat,
            {name: auc(values, together) for name, values in found.items()},
            auc(guessed[seat].astype(np.float64), together),
        )
        for seat, found in scores.items()
    )
    first = scores[COORDINATOR]
    single = {name: values for name, values in first.items() if name != _READS_OTHER_REFITS}
    return Audit(
        about,
        None if about.epsilon is None else bound_of_run(single, together, about.delta),
        {silo.name: silo.private.size for silo in silos},
        sum(map(len, candidates.values())),
        len(drawn),
        seats,
        _by_silo(first[seats[0].strongest[0]], bits),
        _exposed(guessed[COORDINATOR] == together, candidates, names),
        time.monotonic() - started,
    )


def _promised(config: RunConfig) -> float | None:
    """Epsilon for each record; None where records are promised nothing."""
    method = config.method
    if config.protection != "none" or method.protects_records or method.trains_together:
        return config.epsilon
    # A gamma says how much noise there is, and epsilon follows: it is in the result of the run.
    in_shares = method.noise if method.noise_in_shares else None
    return in_shares.epsilon if in_shares and not in_shares.gamma else None


def _by_silo(scores: NDArray[np.float64], bits: Mapping[SiloName, NDArray[np.bool_]]) -> dict[SiloName, Estimate]:
    """Each silo's area under the curve; none for a silo whose candidates were all in, or all out."""
    ends = np.cumsum([members.shape[1] for members in bits.values()])[:-1]
    parts = zip(bits.items(), np.hsplit(scores, ends), strict=True)
    return {silo: auc(own, members) for (silo, members), own in parts if members.any() and not members.all()}


def _exposed(right: NDArray[np.bool_], candidates: Candidates, silos: list[SiloName]) -> tuple[Exposed, ...]:
    owners = [(silo, int(row)) for silo in silos for row in candidates[silo]]
    times = right.sum(axis=0)
    order = np.argsort(-times, kind="stable")[:_MOST_EXPOSED]
    return tuple(Exposed(owners[place][0], owners[place][1], int(times[place])) for place in order)


def rehearse(site: Site, how: How, *, progress: Progress = iter) -> Audit:
    """Attack the labels, planted in the public set, of models that learn from random halves of the silo's candidates.

    A protection's labeler answers as often as the plan says. Raises ConfigError for a quantity, DataError.
    """
    site.schema.outcome.check_classes(
        f"the study predicts a number ({site.schema.outcome.named}), and membership attacks here are for classes"
    )
    own = SiloData(site.silo, site.private, site.own_test, site.groups)

    def see(candidates: Candidates, members: Members, number: int) -> Seen:
        records = take(own.private, candidates[own.name])
        public = PublicSet(np.concatenate([site.public.X, records.X]))
        part = with_some(own, candidates, members[site.silo])
        model = _trained(site, part)
        labels = Observation(records.y, _labels(site, part, public, np.arange(len(site.public), len(public)), model))
        given = seen_in_model(model, records, len(site.schema.classes))
        return {COORDINATOR: {site.silo: labels}, MODEL: {site.silo: given}}

    promised = site.privacy.epsilon if site.privacy.enabled else None
    about = About("labels of this silo", site.privacy.protection, promised, site.privacy.delta)
    return play(about, how, [own], see, progress)


def _trained(site: Site, part: SiloData) -> Learner:
    learner = learner_for(site.settings, site.silo, site.schema, site.public, part.private.X)
    if isinstance(learner, Choosing):
        learner.choose(part.private, part.groups)
    return learner.fit(*part.private)


def _labels(site: Site, part: SiloData, public: PublicSet, rows: NDArray[np.intp], model: Learner) -> NDArray[np.int16]:
    """Labels that would leave for the candidates at these rows of the public set, ``(rounds, n)``."""
    votes = model.predict(public.X[rows]).astype(LABEL_DTYPE)
    if not site.privacy.enabled:
        return votes[None]
    unlabeled: HardLabels = np.full(len(public), ABSTAIN, dtype=LABEL_DTYPE)
    # The number of units counts as public: it stays that of the silo, with or without a record.
    labeler = site.labeler_on(public)
    asked = Asked(part.private, public.X, unlabeled, votes, rows, part.groups)
    return np.stack([labeler.answer(asked, privacy.SecureNoise()) for _ in range(site.privacy.rounds)])


def choose(silos: Sequence[SiloData], count: int, seed: int) -> Candidates:
    """About ``count`` candidates, at most half of each silo's records, or a record each of half of its patients.

    Raises DataError for fewer than 10.
    """
    each = -(-count // len(silos))
    found = {}
    for silo in silos:
        rows = np.arange(silo.private.size)[first_of(silo.groups)]
        order = generator(seed, "candidates", silo.name).permutation(rows)
        found[silo.name] = np.sort(order[: min(each, int(len(rows) * _MOST_OF_A_SILO))])
    if (number := sum(map(len, found.values()))) < FEWEST:
        raise DataError(
            f"the audit has {number} candidates, at most half of each silo's records, and needs {FEWEST}: "
            "add records, or raise the number of candidates"
        )
    return found


def draw(candidates: Candidates, silos: Sequence[SiloData], rng: Generator) -> Members:
    """Draw each candidate ``(n,)`` as a member with probability 1/2, independently."""
    return {silo.name: rng.random(len(candidates[silo.name])) < 0.5 for silo in silos}


def with_members(dataset: FederatedDataset, candidates: Candidates, members: Members) -> FederatedDataset:
    """The data set with the members alone; all candidates stand at the end of the public set, silo after silo."""
    silos = tuple(with_some(silo, candidates, members[silo.name]) for silo in dataset.silos)
    records = [take(silo.private, candidates[silo.name]).X for silo in dataset.silos]
    public = PublicSet(np.concatenate([dataset.public.X, *records]))
    return replace(dataset, silos=silos, public=public, truth=None)


def with_some(silo: SiloData, candidates: Candidates, members: NDArray[np.bool_]) -> SiloData:
    """The silo without those of its candidates ``(n,)`` that are no members, each with all records of its patient."""
    units = unit_of_each(silo.private.size, silo.groups)
    rows = np.flatnonzero(~np.isin(units, units[candidates[silo.name][~members]]))
    return replace(silo, private=take(silo.private, rows), groups=None if silo.groups is None else silo.groups[rows])
