"""The audit of a run: refits of its settings with members held out, attacked from three seats.

``rehearse`` is that of one silo before anything is approved, on its own machine: nothing is sent, charged or kept.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.audit.adversaries import (
    COORDINATOR,
    DRAWN,
    MODEL,
    SEATS,
    Counting,
    Places,
    of_all,
    seen_by,
    seen_in_model,
)
from fedct_flwr.audit.attacks import Observation, all_scores
from fedct_flwr.audit.members import Candidates, choose, draw, with_members, with_some
from fedct_flwr.audit.rerun import Forge, rerun
from fedct_flwr.audit.success import Guesses, Success, bound_of_run, guesses, success
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData, take
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.learners.base import Choosing, Learner
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.text import transformer_for
from fedct_flwr.scoring.intervals import Estimate
from fedct_flwr.seeding import generator, random_state
from fedct_flwr.silo.site import Site
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, DataError, HardLabels, SiloName
from fedct_flwr.wire.content import Instruction, Terms
from fedct_flwr.wire.kinds import kind_of

REFITS: Final = 8
CANDIDATES: Final = 200
MINUTES: Final = 10.0
_MOST_EXPOSED: Final = 10
_READS_OTHER_REFITS: Final = frozenset({"lira", "rmia"})
"""The bound on epsilon needs guesses that read one output alone."""


@dataclass(frozen=True)
class How:
    """``refits`` with about ``candidates`` over all silos, none begun after ``minutes``; ``planted`` in the public set.

    ``forged``: the coordinator also sends a wrong label of each.
    """

    refits: int = REFITS
    candidates: int = CANDIDATES
    minutes: float = MINUTES
    planted: bool = True
    forged: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.refits < 2:
            raise ConfigError(f"refits is {self.refits}: set it to 2 or more, as one chooses thresholds for the other")
        if self.candidates < 1:
            raise ConfigError(f"candidates is {self.candidates}: set it to 10 or more, as fewer say next to nothing")
        if not 0 <= self.minutes < math.inf:
            raise ConfigError(f"minutes is {self.minutes:g}: set it to 0 or more; at 0 there are two refits")
        if self.forged and not self.planted:
            raise ConfigError("a coordinator forges labels of candidates in the public set: plant them there")

    def begun(self, progress: Callable[[Iterable[int]], Iterable[int]]) -> Iterator[int]:
        """The numbers of the refits: two at least, and of the others those that time is left for."""
        started = time.monotonic()
        for number in progress(range(self.refits)):
            if number > 1 and time.monotonic() - started > 60 * self.minutes:
                return
            yield number


@dataclass(frozen=True)
class OfSeat:
    """All attacks from one seat by name; ``vul`` is the largest area under the curve, as the paper tells it."""

    seat: str
    attacks: Mapping[str, Success]
    guesses: Guesses

    @property
    def strongest(self) -> tuple[str, Success]:
        """The attack with the largest area, and how well it works."""
        return max(self.attacks.items(), key=lambda item: item[1].auc.value)


@dataclass(frozen=True)
class Exposed:
    """A record by its position among its silo's private ones, guessed right in ``right`` of the refits."""

    silo: SiloName
    record: int
    right: int


class Promise(NamedTuple):
    """An epsilon at a delta for each record, and the ``lower`` bound on it that guesses prove."""

    epsilon: float
    delta: float
    lower: float


@dataclass(frozen=True)
class Audit:
    """Results of an audit. ``silos`` are from the coordinator's seat, by the strongest attack there.

    ``lower_epsilon`` is a valid lower bound at ``delta`` where the run promises ``epsilon``, else None. ``exposed``
    begins with the record that is guessed right most often.
    """

    algorithm: str
    protection: str
    epsilon: float | None
    delta: float
    lower_epsilon: float | None
    records: Mapping[SiloName, int]
    candidates: int
    refits: int
    planted: bool
    forged: bool
    seats: tuple[OfSeat, ...]
    silos: Mapping[SiloName, Estimate]
    exposed: tuple[Exposed, ...]
    seconds: float
    noisy_sums: bool = False
    """Whether silos add noise to secure sums, of which the coordinator sees the opened ones."""
    drawn: Promise | None = None
    """Guarantee of a drawn public set."""

    def of(self, seat: str) -> OfSeat:
        """Success of one adversary. Raises KeyError for one that sees nothing."""
        return {found.seat: found for found in self.seats}[seat]


def check(config: RunConfig, dataset: FederatedDataset) -> None:
    """Raise ConfigError for a run that no attack here is for."""
    dataset.schema.outcome.check_classes(
        f"the run predicts a number ({dataset.schema.outcome.named}), and membership attacks here are for classes: "
        "audit a run with classes"
    )


def audit(
    config: RunConfig,
    dataset: FederatedDataset,
    how: How,
    *,
    progress: Callable[[Iterable[int]], Iterable[int]] = lambda items: items,
) -> Audit:
    """Refit the run and attack it. Raises ConfigError or DataError for a run that cannot be audited, RunError."""
    check(config, dataset)
    if how.forged and (config.method.noise_in_shares or config.method.trains_together):
        raise ConfigError(
            "silos add to one sum only what all of them were asked alike, so a coordinator that sends one of them "
            "forged labels opens no sum: audit sums with noise without --forge"
        )
    started = time.monotonic()
    candidates = choose(dataset.silos, how.candidates, how.seed)
    settings = config.learner_settings(0, len(dataset.silos))
    places = Places(dataset, candidates, transformer_for(settings, dataset.schema, dataset.public.X))
    forge = _forged(places, dataset.schema.terms(config.study, dataset.public)) if how.forged else None
    seen: dict[str, list[Mapping[SiloName, Observation]]] = {seat: [] for seat in SEATS}
    counting = None
    if config.public == "drawn" and config.draw_epsilon:
        counting, seen[DRAWN] = Counting(config, dataset, candidates), []
    drawn: list[dict[SiloName, NDArray[np.bool_]]] = []
    for number in how.begun(progress):
        members = draw(candidates, dataset.silos, generator(how.seed, "members", number))
        held = with_members(dataset, candidates, members, planted=how.planted)
        seed = random_state(how.seed, "refit", number)
        refit = rerun(config, held, seed, forge)
        for seat in SEATS:
            seen[seat].append(seen_by(seat, refit, places))
        if counting:
            seen[DRAWN].append(counting.seen(members, seed))
        drawn.append(members)
    draw_promise = (config.draw_epsilon, config.draw_delta) if counting else None
    about = About(config.algorithm, config.protection, _promised(config), config.delta, draw_promise)
    found = conclude(about, how, dataset.silos, candidates, seen, drawn, time.monotonic() - started)
    return replace(found, noisy_sums=config.method.noise_in_shares)


class About(NamedTuple):
    """The attacked run; ``epsilon`` is each record's guarantee, None without one.

    ``draw``: the epsilon and delta of a drawn public set, None where there is none.
    """

    algorithm: str
    protection: str
    epsilon: float | None
    delta: float
    draw: tuple[float, float] | None = None


def conclude(
    about: About,
    how: How,
    silos: Sequence[SiloData],
    candidates: Candidates,
    seen: Mapping[str, Sequence[Mapping[SiloName, Observation]]],
    drawn: Sequence[Mapping[SiloName, NDArray[np.bool_]]],
    seconds: float,
) -> Audit:
    """All attacks on what each seat has ``seen`` in each refit, whose members were ``drawn``. Raises DataError."""
    names = [silo.name for silo in silos]
    bits = {silo: np.stack([members[silo] for members in drawn]) for silo in names}
    together = np.hstack([bits[silo] for silo in names])
    seats, scores = [], {}
    for seat, refits in seen.items():
        if of_all(refits) and (found := all_scores(refits, bits)):
            scores[seat] = found
            attacks = {name: success(values, together) for name, values in found.items()}
            seats.append(OfSeat(seat, attacks, guesses(found, together)))
    if COORDINATOR not in scores:
        raise DataError("nothing travelled that says anything of a candidate: plant candidates in the public set")

    def lower(seat: str, delta: float) -> float:
        single = {name: values for name, values in scores[seat].items() if name not in _READS_OTHER_REFITS}
        return bound_of_run(single, together, delta)

    return Audit(
        about.algorithm,
        about.protection,
        about.epsilon,
        about.delta,
        None if about.epsilon is None else lower(COORDINATOR, about.delta),
        {silo.name: silo.private.size for silo in silos},
        sum(map(len, candidates.values())),
        len(drawn),
        how.planted,
        how.forged,
        tuple(seats),
        _by_silo(scores[COORDINATOR][seats[0].strongest[0]], bits),
        _exposed(seats[0].guesses.by_refit, candidates, names),
        seconds,
        drawn=None if about.draw is None else Promise(*about.draw, lower(DRAWN, about.draw[1])),
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
    found, start = {}, 0
    for silo, members in bits.items():
        own = scores[:, start : start + members.shape[1]]
        start += members.shape[1]
        if members.any() and not members.all():
            found[silo] = success(own, members).auc
    return found


def _exposed(right: NDArray[np.bool_], candidates: Candidates, silos: list[SiloName]) -> tuple[Exposed, ...]:
    owners = [(silo, int(row)) for silo in silos for row in candidates[silo]]
    times = right.sum(axis=0)
    order = np.argsort(-times, kind="stable")[:_MOST_EXPOSED]
    return tuple(Exposed(owners[place][0], owners[place][1], int(times[place])) for place in order)


def _forged(places: Places, terms: Terms) -> Forge:
    def forge(silo: SiloName, asked: Instruction) -> Instruction:
        if not kind_of(asked, terms).learns_labels:
            return asked
        targets = asked.targets.copy()
        targets[places.rows[silo]] = (places.candidates[silo].y + 1) % terms.num_classes
        return replace(asked, targets=targets)

    return forge


_OWN_LABELS: Final = "labels of this silo"


def rehearse(
    site: Site,
    how: How,
    *,
    progress: Callable[[Iterable[int]], Iterable[int]] = lambda items: items,
) -> Audit:
    """Attack the labels, planted in the public set, of models that learn from random halves of the silo's candidates.

    A protection's labeler answers as often as the plan says. Raises ConfigError for a quantity, DataError.
    """
    site.schema.outcome.check_classes(
        f"the study predicts a number ({site.schema.outcome.named}), and membership attacks here are for classes"
    )
    started = time.monotonic()
    own = SiloData(site.silo, site.private, site.own_test, site.groups)
    candidates = choose([own], how.candidates, how.seed)
    records = take(own.private, candidates[own.name])
    public = PublicSet(np.concatenate([site.public.X, records.X]))
    rows = np.arange(len(site.public), len(public))
    seen: dict[str, list[Mapping[SiloName, Observation]]] = {COORDINATOR: [], MODEL: []}
    drawn: list[dict[SiloName, NDArray[np.bool_]]] = []
    for number in how.begun(progress):
        members = draw(candidates, [own], generator(how.seed, "members", number))
        part = with_some(own, candidates, members[site.silo])
        model = _trained(site, part)
        labels = _labels(site, part, public, rows, model)
        strangers = site.own_test if site.own_test.size else site.pooled_test
        seen[COORDINATOR].append({site.silo: Observation(records.y, labels)})
        given = seen_in_model(model, records, strangers, site.public.X, len(site.schema.classes) - 1)
        seen[MODEL].append({site.silo: given})
        drawn.append(members)
    promised = site.privacy.epsilon if site.privacy.enabled else None
    about = About(_OWN_LABELS, site.privacy.protection, promised, site.privacy.delta)
    return conclude(about, how, [own], candidates, seen, drawn, time.monotonic() - started)


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
    from fedct_flwr.privacy.randomness import SecureNoise

    unlabeled: HardLabels = np.full(len(public), ABSTAIN, dtype=LABEL_DTYPE)
    # The number of units counts as public: it stays that of the silo, with or without a record.
    labeler = site.labeler_on(public)
    asked = Asked(part.private, public.X, unlabeled, votes, rows, part.groups)
    return np.stack([labeler.answer(asked, SecureNoise()) for _ in range(site.privacy.rounds)])
