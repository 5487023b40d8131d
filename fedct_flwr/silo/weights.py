"""A silo's part in a baseline that shares weights: train on from the global ones, hand out its own. Simulation only."""

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedct_flwr.learners import Correctable, Correction
from fedct_flwr.silo.site import set_back
from fedct_flwr.types import Refusal, Refused, TrainingError
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

if TYPE_CHECKING:
    from fedct_flwr.silo.context import SiloContext


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
