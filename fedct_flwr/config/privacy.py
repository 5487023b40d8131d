"""What a silo promises about its records, ``[privacy]``, and how it teaches students, ``[transfer]`` (silo.toml)."""

from typing import Final, Self

from pydantic import Field, model_validator

from fedct_flwr.config.protections import (
    MAX_TEACHERS,
    PROTECTIONS,
    OwnSettings,
    Protection,
    ProtectionName,
    TransferNoise,
    check_together,
)
from fedct_flwr.config.settings import MAX_INT, Settings

MAX_PARTITIONS: Final = 100
"""More students than anybody trains on one silo's records."""

_STUDENTS: Final = 2
_TEACHERS: Final = 5
_TEACHERS_UNDER_NOISE: Final = 25


class TransferSettings(Settings):
    """FedKT at a silo (Li, He, Song, IJCAI 2021): a student for each partition, which its own teachers label for.

    Whether there is noise on the teachers' votes (FedKT-L2) is said by ``[privacy]``: protection = "teachers".
    """

    partitions: int = Field(default=0, ge=0, le=MAX_PARTITIONS)
    """Students at most, the paper's s; 0: 2, or one with a protection. Questions for more votes are refused."""
    teachers: int = Field(default=0, ge=0, le=MAX_TEACHERS)
    """Teachers of each student, the paper's t; 0: 5, or 25 with a protection, if there are so many records."""
    noise: TransferNoise = "laplace"
    """On the teachers' votes, with a protection."""
    gamma: float = Field(default=0.0, ge=0)
    """The noise has the scale 1 / gamma in votes; 0: what keeps the budget under ``[privacy]``."""

    lessons: int = Field(default=0, ge=0, le=MAX_INT)
    """With a protection: public examples, drawn at random, that teachers label under noise and students learn from,
    whatever they are asked about then; 0: those that they are asked about. Only lessons cost privacy."""

    @property
    def as_before_lessons(self) -> dict[str, object] | None:
        """These settings as they were written before there were lessons, as JSON takes it; None if they have some."""
        return None if self.lessons else self.model_dump(mode="json", exclude={"lessons"})

    def lessons_for(self, asked: int, num_public: int) -> int:
        """Public examples that teachers label under noise where students are asked about so many."""
        return min(self.lessons or asked, num_public)

    def most_students(self, *, noisy: bool) -> int:
        """Most votes on an example that a question may ask for."""
        return self.partitions or (1 if noisy else _STUDENTS)

    def fitting_teachers(self, partitions: int, num_records: int, *, noisy: bool) -> int:
        """Teachers of each student: as many as are set, or by default no more than the records allow, 0 if none."""
        default = _TEACHERS_UNDER_NOISE if noisy else _TEACHERS
        return self.teachers or min(default, num_records // partitions)


_IN_THIS_ORDER: Final = ("protection", "epsilon", "delta", "rounds", "queries", "teachers", "clipping_norm", "noise")
"""As the log lines of approvals have them."""


class PrivacySettings(OwnSettings):
    """Whose labels leave in place of the personal model's, and what they may tell about a record in total.

    Epsilon and delta are totals over the whole study, per record of the silo, added or removed. The plan, ``rounds``
    and ``queries``, is what the noise is calibrated for; whatever goes beyond the budget is refused.
    """

    protection: ProtectionName = "none"
    """``none``: the personal model's own labels, without a guarantee. ``dp-sgd``: those of a network trained by noisy
    gradients over the rounds, in steps of its own: not the learner's batch-size, local-steps, learning-rate,
    weight-decay, pseudo-weight and class-weight. ``dp-linear``: of a linear model on features learned from the public
    set, trained once, with a plan of its own too. ``teachers``: a noisy vote of models trained on parts of the records.
    ``randomized-response``: the personal model's, each of them changed at random."""
    epsilon: float = Field(default=1.0, gt=0)
    """For each record, in total over the whole study with all its runs. A smaller one protects more. To raise it needs
    a new approval, and what was spent stays so."""
    delta: float = Field(default=1e-5, ge=0, lt=1)
    """The chance that epsilon does not hold, in total; well below one divided by the number of records."""
    rounds: int = Field(default=10, ge=1, le=MAX_INT)
    """Rounds of the study, all runs together."""
    queries: int = Field(default=0, ge=0, le=MAX_INT)
    """Labels of the study, all runs together; 0: all public examples in each round."""

    @property
    def chosen(self) -> Protection:
        """The protection's entry."""
        return PROTECTIONS[self.protection]

    @property
    def enabled(self) -> bool:
        """Whether anything is promised."""
        return bool(self.chosen.labeler)

    @property
    def decides(self) -> dict[str, object]:
        """What is approved of it, as JSON takes it. Settings to come may be in it only where they have been chosen."""
        found = self.model_dump(mode="json")
        return {**{name: found[name] for name in _IN_THIS_ORDER}, **found}

    def planned_queries(self, num_public: int) -> int:
        """Labels that the plan has."""
        return self.queries or self.rounds * num_public

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        check_together(self.protection, self, self.delta)
        return self
