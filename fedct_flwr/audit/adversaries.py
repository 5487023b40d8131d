"""Adversaries of a run: the coordinator, and a recipient of a silo's model. Both planted the candidates as public."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fedct_flwr import labelers, privacy
from fedct_flwr.audit import attacks
from fedct_flwr.audit.attacks import Observation
from fedct_flwr.audit.rerun import Refit
from fedct_flwr.coordinator.summing import opened
from fedct_flwr.learners import Averageable, Learner, Probabilistic
from fedct_flwr.types import ABSTAIN, Examples, HardLabels, SiloName, TrainingError
from fedct_flwr.wire.kinds import kind_of
from fedct_flwr.wire.sums import Summed

if TYPE_CHECKING:
    # Needs the extra privacy.
    from fedct_flwr.labelers.joint_linear import JointLinear

COORDINATOR: Final = "coordinator"
MODEL: Final = "final model"

Seen = Mapping[str, Mapping[SiloName, Observation]]
"""By seat, the view of each silo's candidates in one refit."""


def seen_in(refit: Refit, candidates: Mapping[SiloName, Examples]) -> Seen:
    """Both adversaries' views; candidates stand at the end of the public set, silo after silo."""
    classes = len(refit.dataset.schema.classes)
    models = {silo: seen_in_model(refit.models[silo], records, classes) for silo, records in candidates.items()}
    return {COORDINATOR: _by_coordinator(refit, candidates), MODEL: models}


def _by_coordinator(refit: Refit, candidates: Mapping[SiloName, Examples]) -> dict[SiloName, Observation]:
    transcript, classes = refit.transcript.silos, len(refit.dataset.schema.classes)
    if any(kept.steps for kept in transcript.values()):
        training = _Training.of(refit)
        return {silo: training.seen(records) for silo, records in candidates.items()}
    if any(kept.weights for kept in transcript.values()):
        return {
            silo: _in_weights(refit.models[silo], transcript[silo].weights, records, classes)
            for silo, records in candidates.items()
        }
    sums = _sums(refit) if refit.in_sums else None
    start, found = len(refit.dataset.public) - sum(records.size for records in candidates.values()), {}
    for silo, records in candidates.items():
        rows = slice(start, start := start + records.size)
        own = transcript[silo]
        probabilities = sums if sums is not None else np.stack(own.probabilities) if own.probabilities else None
        labels = np.stack([_argmax(votes) for votes in sums] if sums is not None else own.labels)
        found[silo] = Observation(records.y, labels[:, rows], None if probabilities is None else probabilities[:, rows])
    return found


def _sums(refit: Refit) -> NDArray[np.float64]:
    """Shares of all silos' votes ``(rounds, num_public, classes)``, or means of their probabilities; NaN for none."""
    classes = len(refit.dataset.schema.classes)
    silos = refit.transcript.silos.values()
    if all(kept.in_sums for kept in silos):
        return _noisy_sums(refit)
    rounds = min(len(kept.labels) for kept in silos)
    total = np.zeros((rounds, len(refit.dataset.public), classes))
    for kept in silos:
        if kept.probabilities:  # counts of students' votes
            total += np.nan_to_num(np.stack(kept.probabilities[:rounds]))
        else:
            total += np.stack(kept.labels[:rounds])[:, :, None] == np.arange(classes)
    return np.asarray(total / np.where(total.any(axis=2), total.sum(axis=2), np.nan)[:, :, None])


def _noisy_sums(refit: Refit) -> NDArray[np.float64]:
    """The same for sums with the silos' noise: probabilities of the classes, by the votes and the noise's scale."""
    terms, found = refit.transcript.terms, []
    for added in zip(*(kept.in_sums for kept in refit.transcript.silos.values()), strict=True):
        asked, kind = added[0].asked, kind_of(added[0].asked, terms)
        if not isinstance(kind, Summed):
            raise TypeError("noise is in sums of votes alone")
        total = np.asarray(np.sum([one.vector for one in added], axis=0, dtype=np.uint64))
        shares = privacy.VoteShares(asked.noise, asked.query.size, terms.width, added[0].honest)
        votes = opened(kind, total, asked, terms, len(added), shares.honest) / shares.grid
        chances = np.full((terms.num_public, terms.width), np.nan)
        chances[asked.query.positions(terms.num_public)] = softmax(votes / asked.noise**2, axis=1)
        found.append(chances)
    return np.stack(found)


@dataclass(frozen=True, eq=False)
class _Training:
    """View of the silos' joint training: the labeler before each of its steps, and the sums in between."""

    labeler: "JointLinear"
    weights: list[NDArray[np.float64]]
    opened: NDArray[np.float64]

    @classmethod
    def of(cls, refit: Refit) -> "_Training":
        """The messages of a refit."""
        steps = next(kept.steps for kept in refit.transcript.silos.values() if kept.steps)
        labeler = labelers.joint_labeler(steps[0], refit.dataset.public, refit.dataset.schema)
        weights = [labeler.start.weights if step.weights is None else step.weights for step in steps[: steps[0].steps]]
        return cls(labeler, weights, np.stack([labeler.opened(*pair) for pair in pairwise(weights)]))

    def seen(self, records: Examples) -> Observation:
        """The labelers, tried on a silo's candidates, and how much of the sums lies along each record's gradient."""
        if not records.size:
            return Observation(records.y)
        vectors = self.labeler.vectors(records.X)
        found = np.stack([self.labeler.probabilities(one, vectors) for one in self.weights])
        residual = found[:-1] - (records.y[:, None] == np.arange(found.shape[2]))
        # As the weights that a sum led to say which columns count.
        seen = [self.labeler.seen(vectors, after) for after in self.weights[1:]]
        own = np.stack([np.einsum("ns,nc->nsc", *pair) for pair in zip(seen, residual, strict=True)])
        gradient = attacks.gradient(self.opened, own)
        return Observation(records.y, found.argmax(axis=2).astype(np.int16), found, gradient)


def _argmax(probabilities: NDArray[np.float64]) -> HardLabels:
    known = np.isfinite(probabilities).all(axis=1)
    best = np.nan_to_num(probabilities).argmax(axis=1)
    return np.where(known, best, ABSTAIN).astype(np.int16)


def _in_weights(
    learner: Learner, weights: list[Mapping[str, NDArray[Any]]], records: Examples, classes: int
) -> Observation:
    """Each round's weights of the silo, tried on the candidates."""
    if not isinstance(learner, Averageable) or not isinstance(learner, Probabilistic) or not records.size:
        return Observation(records.y)
    reached, parts = learner.weights(), []
    for one in weights:
        learner.set_weights(one)
        parts.append(learner.probabilities(records.X, classes))
    learner.set_weights(reached)
    if any(part is None for part in parts):
        return Observation(records.y)
    found = np.stack([part for part in parts if part is not None])
    return Observation(records.y, found.argmax(axis=2).astype(np.int16), found)


def seen_in_model(model: Learner, records: Examples, classes: int) -> Observation:
    """A model's predictions for the records."""
    if not records.size:
        return Observation(records.y)
    try:
        labels = model.predict(records.X)[None].astype(np.int16)
    except TrainingError:  # under a protection, a silo that tells no scores need not train its own model
        return Observation(records.y)
    found = model.probabilities(records.X, classes) if isinstance(model, Probabilistic) else None
    return Observation(records.y, labels, None if found is None else np.asarray(found, dtype=np.float64)[None])
