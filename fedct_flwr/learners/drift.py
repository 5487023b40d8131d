"""How a silo keeps its steps from drifting to an optimum of its own, where silos share weights.

Each correction says what is added to a round's gradients, and how the silo's own vector (first zeros) then changes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from numpy.typing import NDArray

from fedct_flwr.learners.base import Correction
from fedct_flwr.types import TrainingError

Vector: TypeAlias = Mapping[str, NDArray[Any]]

PROXIMAL_MU: Final = "proximal-mu"
"""As Flower's FedProx sends it."""
FEDDYN_ALPHA: Final = "feddyn-alpha"
CONTROL_VARIATES: Final = "control-variates"


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
    reached) / reach``. Raises TrainingError without a ``reach`` (``learners.base.Correctable``): with any optimizer but
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
