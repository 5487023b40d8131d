"""How a silo keeps its steps from drifting to an optimum of its own, where silos share weights.

Each correction says what is added to a round's gradients, and how the silo's own vector (first zeros) then changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from numpy.typing import NDArray

from fedct_flwr.learners.base import Correction
from fedct_flwr.types import TrainingError

Vector: TypeAlias = Mapping[str, NDArray[Any]]

PROXIMAL_MU: Final = "proximal-mu"
"""As Flower's FedProx sends it."""
FEDDYN_ALPHA: Final = "feddyn-alpha"
CONTROL_VARIATES: Final = "control-variates"


class Asked(NamedTuple):
    """What the coordinator sent beside weights, and the learner's ``reach`` (``learners.base.Correctable``)."""

    settings: Mapping[str, Any]
    control: Vector
    reach: float | None


class Drift(Protocol):
    """How steps are corrected."""

    @property
    def sends_change(self) -> bool:
        """Whether the change of the silo's own vector goes to the coordinator."""

    def correction(self, own: Vector) -> Correction:
        """What to add to the gradients of this round."""

    def change(self, begun: Vector, reached: Vector) -> Vector:
        """What to add to the silo's own vector, of a round from one set of weights to the other."""


@dataclass(frozen=True)
class Proximal:
    """The term ``mu / 2 * |w - w_global|^2`` in the loss (FedProx: Li et al., arXiv:1812.06127, Alg. 2)."""

    mu: float
    sends_change = False

    def correction(self, own: Vector) -> Correction:
        """Pulls to where the round began."""
        return Correction(self.mu, {})

    def change(self, begun: Vector, reached: Vector) -> Vector:
        """Nothing is kept."""
        return {}


@dataclass(frozen=True)
class ControlVariates:
    """Gradients plus ``control - own``: the silo's mean gradient of its last round exchanged for that of all silos.

    SCAFFOLD (Karimireddy et al., arXiv:1910.06378, Alg. 1) with option II, ``own`` becoming ``own - control + (begun -
    reached) / reach``. With any optimizer but plain SGD that would be no mean of gradients.
    """

    control: Vector
    reach: float
    sends_change = True

    def correction(self, own: Vector) -> Correction:
        """``control - own``."""
        return Correction(0.0, {name: value - own[name] for name, value in self.control.items()})

    def change(self, begun: Vector, reached: Vector) -> Vector:
        """``(begun - reached) / reach - control``."""
        return {name: (begun[name] - reached[name]) / self.reach - value for name, value in self.control.items()}


@dataclass(frozen=True)
class Dynamic:
    """The terms ``alpha / 2 * |w - w_global|^2 - <own, w>`` in the loss, ``own`` being the last gradient at the silo.

    FedDyn (Acar et al., arXiv:2111.04263, Alg. 1). Where the round ends at the minimum of the loss with these terms,
    ``own - alpha * (reached - begun)`` is the gradient of the loss without them.
    """

    alpha: float
    sends_change = False

    def correction(self, own: Vector) -> Correction:
        """Pulls to where the round began, and away from what the silo alone would learn."""
        return Correction(self.alpha, {name: -value for name, value in own.items()})

    def change(self, begun: Vector, reached: Vector) -> Vector:
        """``-alpha * (reached - begun)``."""
        return {name: -self.alpha * (reached[name] - value) for name, value in begun.items()}


def _control_variates(asked: Asked) -> Drift:
    if asked.reach is None:
        raise TrainingError("control variates need steps that are multiples of gradients: set optimizer = 'sgd'")
    return ControlVariates(asked.control, asked.reach)


DRIFTS: Final[dict[str, Callable[[Asked], Drift]]] = {
    PROXIMAL_MU: lambda asked: Proximal(asked.settings[PROXIMAL_MU]),
    FEDDYN_ALPHA: lambda asked: Dynamic(asked.settings[FEDDYN_ALPHA]),
    CONTROL_VARIATES: _control_variates,
}
"""By the setting that the coordinator sends."""


def drift_of(asked: Asked) -> Drift:
    """How the coordinator wants steps corrected; not at all for FedAvg. Raises TrainingError where it cannot be."""
    return next((make(asked) for name, make in DRIFTS.items() if name in asked.settings), Proximal(0.0))
