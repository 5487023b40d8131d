"""Learners: what a silo trains. Any scikit-learn classifier is one.

The interface of a learner in co-training, and its further capabilities, each a protocol of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.front_door import importing
from fedct_flwr.types import Answers, Examples, Features, Groups, HardLabels

if TYPE_CHECKING:
    from fedct_flwr.learners.automatic import Automatic, AutomaticRegressor, Views
    from fedct_flwr.learners.build import build_learner, named_learners
    from fedct_flwr.learners.feature_pipelines import views_for
    from fedct_flwr.learners.language import Sentences, Tokens, reading_params, same_folder, unusual
    from fedct_flwr.learners.meeting import Meeting, together
    from fedct_flwr.learners.networks import AUGMENTATIONS, mend_torchvision
    from fedct_flwr.learners.own_table import Table, table_for
    from fedct_flwr.learners.plain import as_estimator
    from fedct_flwr.learners.safeguard import Lesson, NetworkSafeguard
    from fedct_flwr.learners.soft import NUMBER_TRAINING, check_in_turn, check_soft
    from fedct_flwr.learners.stacked import Stacks
    from fedct_flwr.learners.survival import ByFunction, SurvivalLearner, survival_learner
    from fedct_flwr.learners.text import transformer_for
    from fedct_flwr.learners.torch_net import TorchLearner, num_values
    from fedct_flwr.learners.trained_model import dumps, read_object, with_plain_numbers
    from fedct_flwr.learners.trained_network import described, preprocessing_in
    from fedct_flwr.learners.transformer import embedded

__all__ = [
    "AUGMENTATIONS", "NUMBER_TRAINING", "Automatic", "AutomaticRegressor", "ByFunction", "Lesson", "Meeting",
    "NetworkSafeguard", "Sentences", "Stacks", "SurvivalLearner", "Table", "Tokens", "TorchLearner", "Views",
    "as_estimator", "build_learner", "check_in_turn", "check_soft", "described", "dumps", "embedded",
    "mend_torchvision", "named_learners", "num_values", "preprocessing_in", "read_object", "reading_params",
    "same_folder", "survival_learner", "table_for", "together", "transformer_for", "unusual", "views_for",
    "with_plain_numbers",
]  # fmt: skip

__getattr__ = importing(__name__)

Train = Callable[[Sequence[Any]], Sequence[Exception | None]]
"""Trains several networks and says what went wrong with each."""
MEETING: Final[ContextVar["Meeting | None"]] = ContextVar("meeting", default=None)
"""In which this thread takes part."""


class Learner(Protocol):
    """Fits labeled examples and predicts in the study's label space, or the values of its quantity.

    ``fit`` forgets earlier fits, accepts any non-empty subset of the classes, and is a function of its arguments alone.
    """

    def fit(self, X: Features, y: Answers, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Train on examples ``(n, ...)`` with classes or values ``(n,)``. Raises TrainingError."""

    def predict(self, X: Features) -> Answers:
        """The class of each example, ``(n,)``, never ABSTAIN; or its value."""


@runtime_checkable
class Choosing(Protocol):
    """A learner that is another one for other records."""

    def choose(self, private: Examples, groups: Groups | None = None) -> None:
        """Become what suits a silo's records, once. ``groups`` ``(n,)`` say which of them belong together."""

    @property
    def choice(self) -> Any:
        """The choice, if there is one, with its ``words``."""


@runtime_checkable
class Grading(Protocol):
    """A learner of signed times, which grades public examples by risk where others label them."""

    last: Any
    """Its own ``safeguard.Trust`` in the last targets; None before there were any."""

    def grade(
        self, private: Examples, public: Features, targets: HardLabels, positions: NDArray[np.intp]
    ) -> HardLabels:
        """Learn from own records and from ``targets`` ``(num_public,)``; grade examples by own records alone.

        Returns a grade of each public example at ``positions``, or ABSTAIN of all. Raises TrainingError.
        """


@runtime_checkable
class Lightening(Protocol):
    """A learner with a cheaper version of itself, which the safeguard trains with and without other silos' labels."""

    def lighter(self) -> Learner:
        """The same with less effort, untrained."""

    def table(self, X: Features) -> Any:
        """Examples ``(n, ...)`` as its model takes them; dense or sparse."""


@runtime_checkable
class Resumable(Protocol):
    """A learner that trains on from where it stands instead of being refitted each round."""

    def reset(self) -> None:
        """Go back to the untrained state."""

    def advance(self, private: Examples, public: Features, targets: HardLabels, pseudo_weight: float) -> None:
        """Train one round, on public examples with ``targets`` ``(num_public,)`` too. Raises TrainingError."""

    def label(self, public: Features, positions: NDArray[np.intp]) -> HardLabels:
        """The class of the public examples at ``positions``."""

    def dump(self) -> bytes:
        """All that is needed to train on, for ``restore``; the same bytes that ``save`` writes, if it is Saveable."""

    def restore(self, state: bytes) -> None:
        """Go on from a dump. Must not execute anything that is in it. Raises TrainingError."""


@runtime_checkable
class Markable(Protocol):
    """A resumable learner that can be put back within one process without a dump."""

    def mark(self) -> bytes:
        """A name for where it stands, to ``restore`` until it is marked again."""


@runtime_checkable
class Saveable(Protocol):
    """A learner whose trained model can be written to a file that loads without executing code."""

    suffix: str
    """How the names of such files end."""

    def save(self, path: Path) -> None:
        """Write the trained model, whole or not at all. Raises TrainingError, OSError."""

    def load(self, path: Path) -> Self:
        """Take over a model that this learner's ``save`` wrote. Raises DataError."""


@runtime_checkable
class Probabilistic(Protocol):
    """A learner that can tell how sure it is, if the model it has trained can."""

    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64] | None:
        """Of each class for each example, ``(n, num_classes)``, rows sum to 1; None if the model knows none."""


@runtime_checkable
class SoftTrainable(Probabilistic, Resumable, Protocol):
    """A learner that trains on from round to round, also on probabilities instead of labels."""

    def advance_soft(self, private: Examples, public: Features, targets: NDArray[np.float32], weight: float) -> None:
        """Train for one round on ``mean CE(private, labels) + weight * mean CE(public, targets)``.

        ``targets`` ``(num_public, classes)`` are probabilities, or 0 for no target. Raises TrainingError, unchanged.
        """


@runtime_checkable
class SoftFittable(Probabilistic, Protocol):
    """A learner that is refitted each time, and may learn probabilities from examples with weights."""

    def check_soft(self) -> None:
        """Raise ConfigError unless its models know probabilities and its ``fit`` takes sample weights."""


@runtime_checkable
class Averageable(Protocol):
    """A learner whose weights can be taken out, averaged with others' and put back. For baselines in simulation."""

    def weights(self) -> dict[str, NDArray[Any]]:
        """All that the model predicts with, by name: parameters, and running statistics if it has any."""

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Predict and train on with these; whatever else training keeps (optimizer) stays. Raises TrainingError."""


class Correction(NamedTuple):
    """Added to the gradient of every step of a round: ``pull * (w - w_begun) + shift``, ``shift`` by parameter."""

    pull: float
    shift: Mapping[str, NDArray[Any]]


NO_CORRECTION: Final = Correction(0.0, {})


@runtime_checkable
class Correctable(Averageable, Resumable, Protocol):
    """A learner with weights that descends along gradients, which can be corrected. For baselines in simulation."""

    @property
    def parameters(self) -> Sequence[str]:
        """Names of the weights that gradients move: not of running statistics."""

    @property
    def reach(self) -> float | None:
        """Steps of a round times the learning rate, by which SCAFFOLD divides the change of weights.

        None where steps are not one fixed multiple of gradients: with Adam, or with a rate that decays.
        """

    def advance_corrected(self, private: Examples, correction: Correction) -> None:
        """Train for one round on private examples. Raises TrainingError, in the state of before."""


@runtime_checkable
class Distillable(Protocol):
    """A network that learns others' probabilities by minibatches: FedMD's silos, and FedDF's student."""

    def logits(self, X: Features) -> NDArray[np.float32]:
        """Of each example and class, ``(n, classes)``: probabilities are their softmax."""

    def distill(self, X: Features, targets: NDArray[np.float32], steps: int) -> None:
        """Train on ``steps`` minibatches of ``X`` with ``targets`` ``(n, classes)``. Raises TrainingError."""
