"""What a silo promises about its records, and for how long: ``[privacy]`` in ``silo.toml``."""

from typing import Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from fedct_flwr.config.settings import MAX_INT, Settings
from fedct_flwr.config.uses import Uses, uses

MAX_TEACHERS: Final = 1000
"""More models than anybody trains on one silo's records."""


Protection: TypeAlias = Literal["none", "dp-sgd", "dp-linear", "teachers", "randomized-response"]
VoteNoise: TypeAlias = Literal["gumbel", "gaussian"]

_PROMISE: Final = uses("epsilon", "delta")

OF_PROTECTION: Final[dict[str, Uses]] = {
    "none": {},
    "dp-sgd": _PROMISE | uses("clipping-norm"),
    "dp-linear": _PROMISE,
    "teachers": _PROMISE | uses("teachers", "noise"),
    "randomized-response": _PROMISE,
}
"""Each protection's settings, in a run config and under ``[privacy]``, which has a plan besides."""


class PrivacySettings(Settings):
    """Whose labels leave in place of the personal model's, and what they may tell about a record in total.

    Epsilon and delta are totals over the whole study, per record of the silo, added or removed. The plan, ``rounds``
    and ``queries``, is what the noise is calibrated for; whatever goes beyond the budget is refused.
    """

    protection: Protection = "none"
    """``none``: the personal model's own labels, without a guarantee. ``dp-sgd``: those of a network trained by noisy
    gradients over the rounds, in steps of its own: not the learner's batch-size, local-steps, learning-rate,
    weight-decay, pseudo-weight and class-weight. ``dp-linear``: of a linear model on features learned from the public
    set, trained once, with a plan of its own too. ``teachers``: a noisy vote of models trained on parts of the records.
    ``randomized-response``: the personal model's, each of them changed at random."""
    epsilon: float = Field(default=1.0, gt=0)
    delta: float = Field(default=1e-5, ge=0, lt=1)
    rounds: int = Field(default=10, ge=1, le=MAX_INT)
    """Rounds of the study, all runs together."""
    queries: int = Field(default=0, ge=0, le=MAX_INT)
    """Labels of the study, all runs together; 0: all public examples in each round."""
    teachers: int = Field(default=0, ge=0, le=MAX_TEACHERS)
    """Models that vote; 0: as many as the number of records suggests."""
    clipping_norm: float = Field(default=1.0, gt=0)
    """For dp-sgd: the longest that a record's gradient may be."""
    noise: VoteNoise = "gumbel"
    """On the teachers' votes."""

    @property
    def enabled(self) -> bool:
        """Whether anything is promised."""
        return self.protection != "none"

    def planned_queries(self, num_public: int) -> int:
        """Labels that the plan has."""
        return self.queries or self.rounds * num_public

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        check_together(self.protection, self.delta, self.teachers, self.noise)
        return self


def check_together(protection: Protection, delta: float, teachers: int, noise: VoteNoise) -> None:
    """Raise ValueError for settings that do not go together."""
    if teachers == 1:
        raise ValueError("a single teacher is outvoted by nobody: set teachers to 2 or more, or to 0")
    if protection == "teachers" and noise == "gaussian" and delta == 0:
        raise ValueError("Gaussian noise promises nothing at delta = 0: set delta to 1e-5, say, or noise to 'gumbel'")
    if protection in ("dp-sgd", "dp-linear") and delta == 0:
        raise ValueError(f"{protection} promises nothing at delta = 0: set delta to a number such as 1e-5")
