"""Adversaries of a run: the coordinator, another silo, and a recipient of a model or a drawn set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.neighbors import NearestNeighbors

from fedct_flwr.audit import attacks
from fedct_flwr.audit.attacks import Observation, Scores
from fedct_flwr.audit.members import Candidates, with_members
from fedct_flwr.audit.rerun import Refit
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, as_numbers, pool, take
from fedct_flwr.drawing.simulated import placed, plan_of, sum_of
from fedct_flwr.learners.base import Averageable, Learner, Probabilistic
from fedct_flwr.learners.preprocessing import transformed
from fedct_flwr.secure_sum.votes import opened
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, Examples, Features, HardLabels, SiloName, TrainingError
from fedct_flwr.wire.kinds import Summed, kind_of

if TYPE_CHECKING:
    # Needs the extra privacy.
    from fedct_flwr.labelers.joint_linear import JointLinear

COORDINATOR: Final = "coordinator"
OTHER_SILO: Final = "another silo"
MODEL: Final = "final model"
DRAWN: Final = "drawn set"
SEATS: Final = (COORDINATOR, OTHER_SILO, MODEL)

_EXACT: Final = 1.0
"""Standard deviation, in records, assumed by an attacker that tests whether the noise was left out."""
_NEIGHBOURS: Final = 3
_STRANGERS: Final = 1000
"""Test records that scores of candidates are compared with. More tell little, and networks take long to answer."""


class Places:
    """Positions of candidates and their neighbours in the public set, the same in all refits."""

    def __init__(self, dataset: FederatedDataset, candidates: Candidates, transformer: Any) -> None:
        self.num_public = len(dataset.public)
        self.last_class = len(dataset.schema.classes) - 1
        self.candidates = {silo.name: take(silo.private, candidates[silo.name]) for silo in dataset.silos}
        self.public = dataset.public.X
        some = generator(0, "strangers").permutation(dataset.test.size)[:_STRANGERS]
        self.test = take(dataset.test, np.sort(some))
        start, self.rows = self.num_public, {}
        for silo in dataset.silos:
            size = self.candidates[silo.name].size
            self.rows[silo.name] = np.arange(start, start + size)
            start += size
        known = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, self.num_public)).fit(_flat(transformer, self.public))
        self.neighbours = {
            silo: known.kneighbors(_flat(transformer, own.X), return_distance=False) if own.size else None
            for silo, own in self.candidates.items()
        }


def _flat(transformer: Any, X: Features) -> Any:
    """Rows of numbers for distances: an array, or the sparse matrix that texts become."""
    found = transformed(transformer, X)
    if issparse(found):
        return found
    found = np.asarray(found)
    if found.dtype.kind in "OSU":  # a learner that reads texts itself
        return HashingVectorizer().transform([" ".join(map(str, np.atleast_1d(row))) for row in found])
    return np.nan_to_num(as_numbers(found).reshape(len(found), -1).astype(np.float64))


def seen_by(seat: str, refit: Refit, places: Places) -> dict[SiloName, Observation]:
    """The adversary's view of each silo's candidates."""
    if seat == MODEL:
        return {
            silo: seen_in_model(refit.models[silo], records, places.test, places.public, places.last_class)
            for silo, records in places.candidates.items()
        }
    transcript = refit.transcript.silos
    if any(kept.steps for kept in transcript.values()):
        training = _Training.of(refit, places)
        return {silo: training.seen(records) for silo, records in places.candidates.items()}
    if any(kept.weights for kept in transcript.values()):
        return {silo: _in_weights(seat, refit, places, silo) for silo in places.candidates}
    if seat == COORDINATOR and refit.in_sums:
        opened = _sums(refit)
        labels = np.stack([_argmax(votes) for votes in opened])
        return {silo: _told(labels, opened, places, silo) for silo in places.candidates}
    if seat == COORDINATOR:
        return {silo: _in_answers(refit, places, silo) for silo in places.candidates}
    return {silo: _in_consensus(refit, places, silo) for silo in places.candidates}


def _in_answers(refit: Refit, places: Places, silo: SiloName) -> Observation:
    """Labels or probabilities of the silo, and labels that others gave to the same records."""
    own, rows = refit.transcript.silos[silo], places.rows[silo]
    planted = len(own.labels[0]) > places.num_public
    labels, y = np.stack(own.labels), places.candidates[silo].y
    neighbours = places.neighbours[silo]
    near = None if neighbours is None else labels[:, neighbours]
    if not planted:
        return Observation(y, neighbours=near)
    rounds = min(len(kept.labels) for kept in refit.transcript.silos.values())
    others = [np.stack(kept.labels[:rounds])[:, rows] for name, kept in refit.transcript.silos.items() if name != silo]
    probabilities = population = None
    if own.probabilities:
        answers = np.stack(own.probabilities)
        probabilities = answers[:, rows]
        strangers = [name for name in places.candidates if name != silo]
        population = np.concatenate(
            [attacks.true_probability(answers[:, places.rows[name]], places.candidates[name].y) for name in strangers]
        )
    return Observation(y, labels[:, rows], probabilities, np.stack(others), near, population)


def _sums(refit: Refit) -> NDArray[np.float64]:
    """Shares of all silos' votes ``(rounds, num_public, classes)``, or means of their probabilities; NaN for none."""
    classes = len(refit.dataset.schema.classes)
    silos = refit.transcript.silos.values()
    if all(kept.in_sums for kept in silos):
        return _noisy_sums(refit)
    rounds = min(len(kept.labels) for kept in silos)
    total = np.zeros((rounds, len(refit.dataset.public), classes))
    for kept in silos:
        if kept.probabilities:
            total += np.nan_to_num(np.stack(kept.probabilities[:rounds]))
        else:
            total += np.stack(kept.labels[:rounds])[:, :, None] == np.arange(classes)
    return np.asarray(total / np.where(total.any(axis=2), total.sum(axis=2), np.nan)[:, :, None])


def _noisy_sums(refit: Refit) -> NDArray[np.float64]:
    """The same for sums with the silos' noise: probabilities of the classes, by the votes and the noise's scale."""
    from fedct_flwr.privacy.noise_shares import VoteShares  # needs the extra privacy

    terms, found = refit.transcript.terms, []
    for added in zip(*(kept.in_sums for kept in refit.transcript.silos.values()), strict=True):
        asked, kind = added[0].asked, kind_of(added[0].asked, terms)
        if not isinstance(kind, Summed):
            raise TypeError("noise is in sums of votes alone")
        total = np.asarray(np.sum([one.vector for one in added], axis=0, dtype=np.uint64))
        shares = VoteShares(asked.noise, asked.query.size, terms.width, added[0].honest)
        votes = opened(kind, total, asked, terms, len(added), shares.honest) / shares.grid
        chances = np.full((terms.num_public, terms.width), np.nan)
        chances[asked.query.positions(terms.num_public)] = softmax(votes / asked.noise**2, axis=1)
        found.append(chances)
    return np.stack(found)


def _told(
    labels: NDArray[np.int16], probabilities: NDArray[np.float64] | None, places: Places, silo: SiloName
) -> Observation:
    """Evidence in public labels ``(rounds, n)`` and probabilities on a silo's candidates or their neighbours."""
    y, rows, neighbours = places.candidates[silo].y, places.rows[silo], places.neighbours[silo]
    near = None if neighbours is None else labels[:, neighbours]
    if labels.shape[1] == places.num_public:
        return Observation(y, neighbours=near)
    return Observation(y, labels[:, rows], None if probabilities is None else probabilities[:, rows], neighbours=near)


@dataclass(frozen=True, eq=False)
class _Training:
    """View of the silos' joint training: the labeler before each of its steps, and the sums in between."""

    labeler: "JointLinear"
    weights: list[NDArray[np.float64]]
    opened: NDArray[np.float64]
    strangers: Examples

    @classmethod
    def of(cls, refit: Refit, places: Places) -> "_Training":
        """The messages of a refit."""
        from fedct_flwr.labelers.joint_linear import joint_labeler

        steps = next(kept.steps for kept in refit.transcript.silos.values() if kept.steps)
        labeler = joint_labeler(steps[0], refit.dataset.public, refit.dataset.schema)
        weights = [labeler.start.weights if step.weights is None else step.weights for step in steps[: steps[0].steps]]
        return cls(labeler, weights, np.stack([labeler.opened(*pair) for pair in pairwise(weights)]), places.test)

    @cached_property
    def population(self) -> Scores:
        """Probabilities of the true class of records that are in no training set."""
        found = self.probabilities(self.labeler.vectors(self.strangers.X))
        return attacks.true_probability(found, self.strangers.y)

    def probabilities(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of each class before each step ``(steps, n, classes)``."""
        return np.stack([self.labeler.probabilities(one, vectors) for one in self.weights])

    def seen(self, records: Examples) -> Observation:
        """The labelers, tried on a silo's candidates, and how much of the sums lies along each record's gradient."""
        if not records.size:
            return Observation(records.y)
        vectors = self.labeler.vectors(records.X)
        found = self.probabilities(vectors)
        residual = found[:-1] - (records.y[:, None] == np.arange(found.shape[2]))
        # As the weights that a sum led to say which columns count.
        seen = [self.labeler.seen(vectors, after) for after in self.weights[1:]]
        own = np.stack([np.einsum("ns,nc->nsc", *pair) for pair in zip(seen, residual, strict=True)])
        labels, gradient = found.argmax(axis=2).astype(np.int16), attacks.gradient(self.opened, own)
        return Observation(records.y, labels, found, population=self.population, gradient=gradient)


def _in_consensus(refit: Refit, places: Places, silo: SiloName) -> Observation:
    """Another silo's view of the same records: the consensus, in which this silo has one vote of several."""
    watching = next(kept for name, kept in refit.transcript.silos.items() if name != silo)
    seen = [labels for labels in watching.targets if (labels != ABSTAIN).any()]
    seen += [_argmax(probabilities) for probabilities in watching.soft_targets]
    if not seen:
        return Observation(places.candidates[silo].y)
    soft = np.stack(watching.soft_targets) if watching.soft_targets else None
    return _told(np.stack(seen), soft, places, silo)


def _argmax(probabilities: NDArray[np.float64]) -> HardLabels:
    known = np.isfinite(probabilities).all(axis=1)
    best = np.nan_to_num(probabilities).argmax(axis=1)
    return np.where(known, best, ABSTAIN).astype(np.int16)


def _in_weights(seat: str, refit: Refit, places: Places, silo: SiloName) -> Observation:
    """Each round's weights, tried on the candidates: the silo's own, or the global ones that others are sent."""
    kept = refit.transcript.silos[silo]
    learner = refit.models[silo]
    if not isinstance(learner, Averageable):
        return Observation(places.candidates[silo].y)
    reached = learner.weights()
    # The first global weights were drawn before anybody learned anything.
    weights = kept.weights if seat == COORDINATOR else kept.global_weights[1:]
    records, parts, strangers = places.candidates[silo], [], []
    for one in weights:
        learner.set_weights(one)
        parts.append(_probabilities(learner, records.X, refit.dataset))
        strangers.append(_probabilities(learner, places.test.X, refit.dataset))
    learner.set_weights(reached)
    if not parts or any(part is None for part in parts):
        return Observation(records.y)
    found = np.stack([part for part in parts if part is not None])
    population = attacks.true_probability(np.stack([one for one in strangers if one is not None]), places.test.y)
    return Observation(records.y, found.argmax(axis=2).astype(np.int16), found, population=population)


def seen_in_model(
    model: Learner, records: Examples, strangers: Examples, public: Features, last_class: int
) -> Observation:
    """A model's predictions for the records, changed copies, and ``strangers`` outside all training sets."""
    if not records.size:
        return Observation(records.y)
    classes = max(last_class, int(records.y.max())) + 1
    try:
        labels = model.predict(records.X)[None].astype(np.int16)
    except TrainingError:  # under a protection, a silo that tells no scores need not train its own model
        return Observation(records.y)
    probabilities = model.probabilities(records.X, classes) if isinstance(model, Probabilistic) else None
    population = None
    if probabilities is not None and strangers.size and isinstance(model, Probabilistic):
        theirs = model.probabilities(strangers.X, classes)
        population = None if theirs is None else attacks.true_probability(theirs[None], strangers.y)
    # A record of one field, such as a text, is itself or another one: nothing lies between.
    fields = int(np.prod(records.X.shape[1:]))
    rng = generator(0, "boundary")
    edge = attacks.boundary(model.predict, records.X, records.y, public, rng) if fields > 1 else None
    own = None if probabilities is None else np.asarray(probabilities, dtype=np.float64)[None]
    return Observation(records.y, labels, own, population=population, boundary=edge)


def _probabilities(model: Learner, X: Features, dataset: FederatedDataset) -> NDArray[np.float64] | None:
    return model.probabilities(X, len(dataset.schema.classes)) if isinstance(model, Probabilistic) else None


def of_all(refits: Sequence[Mapping[SiloName, Observation]]) -> bool:
    """Whether a seat sees anything of all silos' candidates."""
    return all(
        seen.counts or any(part is not None for part in (seen.labels, seen.neighbours))
        for refit in refits
        for seen in refit.values()
    )


class Counting:
    """A run's counts, for an attacker who knows all records but which of the candidates are members."""

    def __init__(self, config: RunConfig, dataset: FederatedDataset, candidates: Candidates) -> None:
        from fedct_flwr.drawing.marginals import GRID  # needs the extra privacy

        self._dataset, self._candidates, self._plan, self._grid = dataset, candidates, plan_of(dataset, config), GRID
        self._y = {silo.name: take(silo.private, candidates[silo.name]).y for silo in dataset.silos}
        X, y = pool([take(silo.private, candidates[silo.name]) for silo in dataset.silos])
        cells = self._plan.form.place(X)[0]
        each = [self._plan.counts(cells[i : i + 1], y[i : i + 1]) for i in range(len(y))]
        self._records = np.stack(each) / self._grid
        self._known = self._counts({silo: np.zeros(len(y), dtype=np.bool_) for silo, y in self._y.items()}, None)

    def seen(self, members: Mapping[SiloName, NDArray[np.bool_]], seed: int) -> dict[SiloName, Observation]:
        """Evidence in the sum of counts on each silo's candidates, some of which are ``members``."""
        opened = self._counts(members, seed) - self._known
        widths = {"counts": self._plan.noise.scale / self._grid, "exact counts": _EXACT}
        scores = {name: attacks.counted(opened, self._records, width) for name, width in widths.items()}
        found, start = {}, 0
        for silo, y in self._y.items():
            part = slice(start, start := start + len(y))
            found[silo] = Observation(y, counts={name: values[part] for name, values in scores.items()})
        return found

    def _counts(self, members: Mapping[SiloName, NDArray[np.bool_]], seed: int | None) -> NDArray[np.float64]:
        """Counts of all records but non-members; without a seed, without noise."""
        held = with_members(self._dataset, self._candidates, members, planted=False)
        cells, y, _ = placed(self._plan.form, held.silos)
        counts = self._plan.counts(cells, y) if seed is None else sum_of(self._plan, cells, y, seed)
        return np.asarray(counts / self._grid)
