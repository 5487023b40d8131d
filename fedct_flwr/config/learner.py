"""Which learner a silo trains, and how."""

from math import isfinite
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field

from fedct_flwr.config.settings import MAX_INT, Names, Settings, Uses, uses

Optimizer: TypeAlias = Literal["adam", "sgd"]

OF_NETWORKS: Final[Uses] = uses(
    "local-steps", "batch-size", "learning-rate", "decay-steps", "weight-decay", "optimizer", "epochs", "device"
)
"""Settings of networks alone."""

AUTO: Final = "auto"
"""As a learner: the silo chooses one by its own records. As ``pseudo-weight``: they decide it."""
READS_TEXT: Final = frozenset({"tfidf-linear", "sentence-embedding", "transformer"})
"""Learners that need a column of texts."""


def _number_or_auto(value: object) -> object:
    if value == AUTO:
        return value
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = 0.0
    if isinstance(value, bool) or not isfinite(number) or number <= 0:
        raise ValueError("give a number above 0, or 'auto' for what the silo's own records support")
    return number


PseudoWeight: TypeAlias = Annotated[float | Literal["auto"], BeforeValidator(_number_or_auto)]
"""Weight of a pseudo-labeled public example, if a private one has 1; auto: each silo's records decide."""


def _rounds_or_auto(value: object) -> object:
    text = str(value)
    if value != AUTO and not (text.isdecimal() and 1 <= int(text) <= _MOST_ROUNDS):
        raise ValueError(
            f"give a number of rounds from 1 to {_MOST_ROUNDS:,}, or 'auto' for until its own records say enough"
        )
    return value if value == AUTO else int(text)


WarmUp: TypeAlias = Annotated[int | Literal["auto"], BeforeValidator(_rounds_or_auto)]
"""Rounds of a network's private training before its first answer; auto: until held-out records stop improving."""

_MOST_ROUNDS: Final = 1000
_YOUNGER: Final = ("class_weight", "optimizer", "epochs", "decay_steps", "warm_up_rounds")


class Training(Settings):
    """How learners are trained: of a silo under ``[learner]``, and of all silos in a run config."""

    preprocessing: Literal["auto", "standard", "none"] = AUTO
    """Standard: impute and scale numbers, one column for each category. Auto: the same, but numbers in their units for
    an estimator by import path. None: for images, or a learner that does it."""
    class_weight: Literal["none", "balanced"] = "none"
    """Balanced: all classes that it is trained on count the same, however many examples each has."""
    local_steps: int = Field(default=50, ge=1, le=MAX_INT)
    """For networks: minibatch steps per round, the paper's communication period b."""
    warm_up_rounds: WarmUp = AUTO
    """For networks: rounds of private training that a silo's first answer follows, at no bytes; auto: until a fifth of
    its records, held out, stop improving, within 20 looks and 5 minutes. 1: as in the paper of FedCT."""
    batch_size: int = Field(default=64, ge=1, le=MAX_INT)
    """For networks: private examples in a minibatch, and as many pseudo-labeled ones."""
    learning_rate: float = Field(default=1e-3, gt=0)
    decay_steps: int = Field(default=0, ge=0, le=MAX_INT)
    """For networks: minibatch steps, over all rounds, in which learning-rate falls along a cosine to a hundredth, where
    it stays; 0: it never falls."""
    weight_decay: float = Field(default=0.0, ge=0)
    optimizer: Optimizer = "adam"
    """For networks: adam, or plain sgd without momentum, which needs a higher learning-rate (0.1, say)."""
    epochs: int = Field(default=0, ge=0, le=MAX_INT)
    """For networks that are trained once, not from round to round (FedKT's teachers and students): how many times over
    their examples; 0: local-steps for each round."""
    device: str = "auto"
    """For networks: auto, cpu, cuda, cuda:1, mps."""

    @property
    def balanced(self) -> bool:
        """Whether all classes count the same."""
        return self.class_weight == "balanced"


class LearnerSettings(Training):
    """A learner and its training, as under ``[learner]`` in ``silo.toml``."""

    name: str
    """Short name or import path of a classifier or a network."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the learner."""
    packages: Names = ()
    """Installed packages whose learners may be trained, besides the short names: importing them runs their code."""
    pseudo_weight: PseudoWeight = 1.0
    """Weight of a pseudo-labeled public example, if a private one has 1; auto: the silo's own records decide, see
    ``learners/safeguard.py``."""
    seed: int = Field(default=0, ge=0, le=MAX_INT)

    @property
    def given(self) -> list[str]:
        """Keys that the user has chosen; a weight that is left to the records is no choice."""
        return [key for key in super().given if not (key == "pseudo-weight" and self.guarded)]

    @property
    def by_path(self) -> bool:
        """Whether a person has handed over a learner, by import path: no short name has these signs."""
        return "." in self.name or ":" in self.name

    @property
    def training(self) -> Training:
        """How it is trained alone: the same for learners of any name."""
        return Training.model_construct(**{name: getattr(self, name) for name in Training.model_fields})

    @property
    def of_parts(self) -> Self:
        """The same for models that see neither pseudo-labels nor all records: teachers and their students.

        Which learner these are must not depend on the records, so where the silo chooses one, they are linear.
        """
        fixed = {"name": "logistic-regression"} if self.name == AUTO else {}
        return self.model_copy(update={"pseudo_weight": 1.0, **fixed})

    @property
    def guarded(self) -> bool:
        """Whether the silo's own records decide how much the consensus counts."""
        return self.pseudo_weight == AUTO

    @property
    def full_weight(self) -> float:
        """Weight of a pseudo-labeled example where nothing speaks against the consensus."""
        return 1.0 if self.pseudo_weight == AUTO else self.pseudo_weight

    @property
    def decides_model(self) -> dict[str, object]:
        """Settings that decide the model, as JSON types."""
        settings = self.as_approved(_YOUNGER)
        # For a short name both are the same.
        same = self.preprocessing == AUTO and not self.by_path
        return settings | ({"preprocessing": "standard"} if same else {})
