"""How a silo's model learns otherwise than from labels: others' numbers, its records alone, or global weights.

- Shares of votes are the soft targets of distillation (Hinton, Vinyals, Dean, arXiv:1503.02531), made of hard labels
  alone. Probabilities and values serve prediction consensus, distributed distillation and FedMD.
- A network that has learned nothing votes at random, so it trains before its first answer. How long is set, or found by
  early stopping (Prechelt, "Early stopping - but when?", 1998): a fold of the records is held out, and training ends
  when the loss on it is below that of a constant answer, the shares of the classes, and has not fallen for some looks.
  The weights of the best look are kept.
- A baseline that shares weights trains on from the global ones, in a simulation only.
"""

import hashlib
import io
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedct_flwr import learners
from fedct_flwr.config.learner import AUTO
from fedct_flwr.learners import (
    Averageable,
    Choosing,
    Correctable,
    Correction,
    Distillable,
    Learner,
    Probabilistic,
    Resumable,
)
from fedct_flwr.learners.out_of_fold import HeldOut, losses, probabilities
from fedct_flwr.learners.safeguard import NetworkSafeguard
from fedct_flwr.silo.personal import check_learner
from fedct_flwr.silo.site import Site, set_back
from fedct_flwr.types import (
    ABSTAIN,
    LABEL_DTYPE,
    Examples,
    Features,
    HardLabels,
    Refusal,
    Refused,
    SoftVotes,
    TrainingError,
    Votes,
)
from fedct_flwr.wire.content import Instruction, Query, Soft, SoftTargets
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.messages import (
    ARRAYS,
    CONFIG,
    CONTROL_VARIATES,
    FEDDYN_ALPHA,
    to_reply,
    to_weights,
    with_control,
    without_control,
)
from fedct_flwr.wire.other_kinds import PROBABILITIES

if TYPE_CHECKING:
    from fedct_flwr.datasets.federated import PublicSet
    from fedct_flwr.silo.site import SiloContext

_NOTHING: Final = 1.5 / 255
"""Largest difference of an example's shares that carries no information: equal votes for all classes, or none."""


def with_shares(tools: Site, instruction: Instruction, targets: SoftTargets) -> HardLabels:
    """Learn the shares of the votes, and label: votes ``(query.size,)``."""
    informative = np.ptp(targets.votes, axis=1) > _NOTHING
    weight = tools.settings.full_weight
    if not isinstance(tools.learner, Resumable):
        # Each counts as a pseudo-labeled example does. A network's batches have a fixed number of them.
        weight *= np.count_nonzero(informative) / tools.private.size
    learned = targets._replace(votes=np.where(informative[:, np.newaxis], targets.votes, 0), weight=weight)
    learning = Soft(targets=learned) if informative.any() else Soft()
    sure = with_numbers(PROBABILITIES, tools, replace(instruction, soft=learning))
    labels: HardLabels = sure.argmax(axis=1).astype(LABEL_DTYPE)
    return labels


def learn_numbers(
    kind: Kind,
    learner: Learner,
    private: Examples,
    public: "PublicSet",
    targeted: Features,
    targets: SoftVotes | None,
    query: Query,
    *,
    weight: float,
    steps: int = 1,
    num_classes: int = 0,
) -> SoftVotes:
    """Train on private examples and on others' answers, then answer for the queried ones.

    ``targets`` ``(n, width)`` are the silo's own, of the public examples ``targeted`` ``(n, ...)``; None before
    there are any. The loss on them has this ``weight`` (Fan, Mendler-Dünner, Jaggi, arXiv:2305.18497, Alg. 1). With
    0, networks first learn them alone, in ``steps`` minibatches (Li, Wang, "FedMD", arXiv:1910.03581, Alg. 1).
    Returns votes ``(query.size, width)``. Raises TrainingError, or ConfigError for a learner that cannot do it.
    """
    check_learner(kind, learner)
    if targets is not None and not weight:
        learners.check_in_turn(learner)
        if isinstance(learner, Distillable):
            learner.distill(targeted, targets, steps)
        targets = None
    course = learners.COURSES[kind]
    course.train(learner, private, targeted, targets, weight)
    return course.answer(learner, public.X[query.positions(len(public))], num_classes)


def with_numbers(kind: Kind, tools: Site, instruction: Instruction) -> Votes:
    """Learn others' numbers, weighed by own records, and answer ``(query.size, width)``."""
    learning, public = instruction.soft or Soft(), tools.public
    targets = learning.targets
    targeted = public.X[targets.query.positions(len(public)) if targets else slice(0)]
    weight = _trusted(kind, tools, targeted, targets) if targets else 0.0
    return learn_numbers(
        kind,
        tools.learner,
        tools.private,
        public,
        targeted,
        # With weight 0 they would be learned alone, before the records; distrusted targets are not learned.
        targets.votes if targets and (weight or not targets.weight) else None,
        instruction.query,
        weight=weight,
        steps=tools.settings.local_steps,
        num_classes=tools.terms.num_classes,
    )


def _trusted(kind: Kind, tools: Site, targeted: Features, targets: SoftTargets) -> float:
    """Weight of the targets: the coordinator's, or less where the silo's own records speak for that."""
    safeguard, weight = tools.soft_safeguard, targets.weight
    if safeguard is None or not weight:
        return weight
    learner, votes, width, course = tools.learner, targets.votes, tools.terms.num_classes, learners.COURSES[kind]
    check_learner(kind, learner)
    if isinstance(learner, Choosing):
        learner.choose(tools.private)

    def train(records: Examples, share: float) -> None:
        course.train(learner, records, targeted, votes if share else None, share * weight)

    def numbers(X: Features) -> NDArray[np.floating]:
        # Values in double precision: rounded to what travels, models of large values may look alike.
        return course.answer(learner, X, width) if width else learner.predict(X).astype(np.float64)

    digest = hashlib.sha256(repr((targets.query, weight)).encode() + votes.tobytes()).digest()
    return weight * safeguard.trust(learners.Lesson(train, numbers, digest)).weight


_SET: Final = 10
"""Rounds where records cannot decide, or must not: as many as a run has by default."""
_LOOKS: Final = 20
"""Most looks."""
_SECONDS: Final = 300.0
"""Seconds after which no further look is taken: half of a round's deadline by default."""
_PATIENCE: Final = 3
"""Looks without a smaller loss after which training ends."""
_STEPS: Final = 20
"""Minibatches between two looks at least: after fewer, losses hardly differ."""


def warm_up_alone(site: Site, *, promised: bool) -> int:
    """Train a site's fresh network on private records alone, before the round that its first answer follows.

    With ``auto``, the optimizer then begins again, so silos' networks have taken as many steps and can be stacked.
    ``promised``: under a guarantee, for which the time must not depend on records. Returns the rounds that early
    stopping has found, or 0. Raises TrainingError.
    """
    learner, rounds = site.learner, site.settings.warm_up_rounds
    if not isinstance(learner, Resumable):
        return 0
    nothing = np.full(len(site.public), ABSTAIN, dtype=LABEL_DTYPE)

    def train(records: Examples, times: int) -> None:
        for _ in range(times):
            learner.advance(records, site.public.X, nothing, 1.0)

    held = HeldOut(site.private, site.settings.seed, site.silo, site.groups)
    own, asked = held.rest, held.asked
    if isinstance(site.safeguard, NetworkSafeguard):
        site.safeguard.begin()
    decides = rounds == AUTO and not promised and held.enough
    if not (decides and isinstance(learner, Averageable) and isinstance(learner, Probabilistic)):
        known = site.safeguard.training if isinstance(site.safeguard, NetworkSafeguard) else site.private
        train(known, (_SET if rounds == AUTO else rounds) - 1)
        return 0
    # Worth asking is what says more than how frequent each class is.
    shares = np.bincount(own.y, minlength=site.terms.num_classes) / own.size
    constant = losses(np.tile(shares, (asked.size, 1)), asked.y).mean()
    every, best, least, at = math.ceil(_STEPS / site.settings.local_steps), learner.weights(), math.inf, 0
    start = time.monotonic()
    for look in range(1, _LOOKS + 1):
        train(own, every)
        loss = losses(probabilities(learner, asked.X, site.terms.num_classes), asked.y).mean()
        if loss < least:
            best, least, at = learner.weights(), loss, look
        elif least < constant and look - at >= _PATIENCE:
            break
        if time.monotonic() - start > _SECONDS:
            break
    learner.reset()
    learner.set_weights(best)
    return at * every


def train_alone(site: Site, rounds: int, *, promised: bool) -> None:
    """Train a site's fresh network as its silo does while no consensus reaches it: warm-up, then ``rounds``.

    ``promised`` is that of ``warm_up_alone``. Raises TrainingError.
    """
    learner, safeguard = site.learner, site.safeguard
    assert isinstance(learner, Resumable)  # noqa: S101 - others have no rounds
    warm_up_alone(site, promised=promised)
    nothing = np.full(len(site.public), ABSTAIN, dtype=LABEL_DTYPE)
    first = safeguard.training if isinstance(safeguard, NetworkSafeguard) else site.private
    for records in [first] + [site.private] * (rounds - 1):
        learner.advance(records, site.public.X, nothing, 1.0)


Vector: TypeAlias = Mapping[str, NDArray[Any]]

PROXIMAL_MU: Final = "proximal-mu"
"""Key of the term in Flower's FedProx."""


class Drift(NamedTuple):
    """How steps are corrected.

    ``correction`` makes of the silo's own vector what is added to the gradients of a round; ``change`` of the weights
    that a round begins and ends with what is added to that vector, and sent where ``sends_change``.
    """

    correction: Callable[[Vector], Correction]
    change: Callable[[Vector, Vector], Vector]
    sends_change: bool = False


def proximal(mu: float) -> Drift:
    """The term ``mu / 2 * |w - w_global|^2`` in the loss (FedProx: Li et al., arXiv:1812.06127, Alg. 2)."""
    return Drift(lambda own: Correction(mu, {}), lambda begun, reached: {})


def control_variates(control: Vector, reach: float | None) -> Drift:
    """Gradients plus ``control - own``: the silo's mean gradient of its last round exchanged for that of all silos.

    SCAFFOLD (Karimireddy et al., arXiv:1910.06378, Alg. 1) with option II, ``own`` becoming ``own - control + (begun -
    reached) / reach``. Raises TrainingError without a ``reach`` (``learners.Correctable``): with any optimizer but
    plain SGD that would be no mean of gradients.
    """
    if reach is None:
        raise TrainingError("control variates need steps that are multiples of gradients: set optimizer = 'sgd'")

    def change(begun: Vector, reached: Vector) -> Vector:
        return {name: (begun[name] - reached[name]) / reach - value for name, value in control.items()}

    def correction(own: Vector) -> Correction:
        return Correction(0.0, {name: value - own[name] for name, value in control.items()})

    return Drift(correction, change, sends_change=True)


def dynamic(alpha: float) -> Drift:
    """The terms ``alpha / 2 * |w - w_global|^2 - <own, w>`` in the loss, ``own`` being the last gradient at the silo.

    FedDyn (Acar et al., arXiv:2111.04263, Alg. 1). Where the round ends at the minimum of the loss with these terms,
    ``own - alpha * (reached - begun)`` is the gradient of the loss without them.
    """
    return Drift(
        lambda own: Correction(alpha, {name: -value for name, value in own.items()}),
        lambda begun, reached: {name: -alpha * (reached[name] - value) for name, value in begun.items()},
    )


def drift_of(settings: Mapping[str, Any], control: Vector, reach: float | None) -> Drift:
    """How the coordinator wants steps corrected; not at all for FedAvg. Raises TrainingError where it cannot be."""
    if CONTROL_VARIATES in settings:
        return control_variates(control, reach)
    return dynamic(settings[FEDDYN_ALPHA]) if FEDDYN_ALPHA in settings else proximal(settings.get(PROXIMAL_MU, 0.0))


def train_on(content: RecordDict, context: "SiloContext", run_id: int) -> RecordDict:
    """Train the global weights for one round on private records alone, and return the silo's.

    Raises Refused (WEIGHTS) for a real silo or a learner without weights, and TrainingError.
    """
    site, state, learner = context.site, context.state, context.site.learner
    if not (context.simulated and isinstance(learner, Correctable)):
        raise Refused(Refusal.WEIGHTS)
    begun, control = without_control(to_weights(content.array_records[ARRAYS]))
    drift = drift_of(content.config_records[CONFIG], control, learner.reach)
    run = f"run-{run_id}"
    set_back(learner, state.get(f"{run}-learner"), kept=None)
    own = _unpacked(state.get(f"{run}-drift"))
    nothing_yet = {name: np.zeros_like(begun[name]) for name in learner.parameters}
    learner.set_weights(begun)
    learner.advance_corrected(site.private, drift.correction(own or nothing_yet))
    reached = learner.weights()
    # Running statistics drift too, but no gradient tells where to.
    change = drift.change(*({name: weights[name] for name in learner.parameters} for weights in (begun, reached)))
    state.put(f"{run}-learner", learner.dump())
    state.put(f"{run}-drift", _packed({name: value + own.get(name, 0) for name, value in change.items()}))
    return to_reply(site.silo, with_control(reached, change if drift.sends_change else {}), site.private.size)


def _packed(own: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **own)
    return file.getvalue()


def _unpacked(kept: bytes | None) -> dict[str, NDArray[Any]]:
    if kept is None:
        return {}
    with np.load(io.BytesIO(kept), allow_pickle=False) as own:
        return dict(own)
