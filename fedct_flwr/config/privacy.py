"""A silo's guarantee for its records, ``[privacy]``, and its teaching of students, ``[transfer]`` (silo.toml).

Protections and noise that can be chosen have an entry each, with all that others need to know.

To add a protection, write its labeler in a file of its own, next to a function that makes it of a ``Start``
(``fedct_flwr.labelers.labeler``), and enter it here. All others ask the entry: settings and their checks, approvals,
the approval page, the privacy sheet, ``silo.toml`` and the conformance tests.

To add noise on counts of votes, write it as a ``CountNoise`` in ``privacy/mechanisms.py``, enter it there and here, and
describe its output probabilities in ``tests/privacy/mechanisms/cases.py``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple, Self, TypeAlias

from pydantic import Field, model_validator

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.settings import MAX_INT, Settings, Uses, either, one_of, uses
from fedct_flwr.types import ConfigError

ON_COUNTS: Final = ("laplace", "gaussian", "gumbel")
"""Mechanisms of noise on counts of votes, by the names that settings give them: ``mechanism`` in a run config."""

IN_SHARES: Final = ("gaussian",)
"""Those among them that silos can add in shares, so that the sum of all shares is this noise."""

_NEED_DELTA: Final = ("gaussian",)
"""Those among them that promise nothing at delta = 0."""

TallyNoise: TypeAlias = Annotated[str, one_of(("", *ON_COUNTS))]
"""Noise on all silos' votes; empty: what the algorithm takes by default."""
TransferNoise: TypeAlias = Annotated[str, one_of(ON_COUNTS)]
"""Noise on the votes of students' teachers."""


class NoisePlan(NamedTuple):
    """Noise on counts of votes, for this epsilon and delta in total."""

    mechanism: str
    """A name of ``ON_COUNTS``."""
    epsilon: float
    delta: float
    gamma: float = 0.0
    """The noise has the scale 1 / gamma in votes, whatever that costs; 0: what epsilon and delta call for."""


def wrong_delta(key: str, name: str, names: Iterable[str], delta: float) -> str:
    """Explain why this delta does not fit the mechanism that ``key`` names, one of ``names``; empty if it does.

    >>> wrong_delta("mechanism", "gaussian", ("gaussian", "gumbel"), 0.0)
    "Gaussian noise promises nothing at delta = 0: set delta to 1e-5, say, or mechanism to 'gumbel'"
    """
    if delta > 0 or name not in _NEED_DELTA:
        return ""
    instead = [other for other in names if other not in _NEED_DELTA]
    other = f", or {key} to {either(instead)}" if instead else ""
    return f"{name.capitalize()} noise promises nothing at delta = 0: set delta to 1e-5, say{other}"


MAX_TEACHERS: Final = 1000
"""More models than anybody trains on one silo's records."""


def whole_learner(learner: LearnerSettings) -> dict[str, object]:
    """All that decides what a learner learns, without where it is trained."""
    settings = learner.decides_model
    # Pseudo-labels are weighed for the personal model alone; the labelers here see none, or what it says after it.
    settings["pseudo_weight"] = learner.full_weight
    return {"learner": {name: value for name, value in settings.items() if name not in ("device", "packages")}}


def _network(learner: LearnerSettings) -> dict[str, object]:
    """Settings that decide a network's form, without those of its training."""
    settings = learner.decides_model
    return {name: settings[name] for name in ("name", "params", "preprocessing")}


@dataclass(frozen=True, kw_only=True)
class Protection:
    """A protection, whose labels leave instead of the personal model's. Import paths are ``module:function``."""

    leaves: str
    """Data that leave on a question for labels, for the approver."""
    of_auto: str = ""
    """The choice of ``learner = "auto"`` under it, and its cover: a sentence; empty if it refuses that."""
    labeler: str = ""
    """Import path of what makes the ``Labeler`` of a ``Start``; empty: it covers no labels."""
    own: tuple[str, ...] = ()
    """The settings that it alone uses, as they are written."""
    needs_delta: bool = False
    """Whether it promises nothing at delta = 0, whatever else is set."""
    extra: str = "privacy"
    """The extra of this package that it needs."""
    of_learner: Callable[[LearnerSettings], Mapping[str, object]] = whole_learner
    """Settings of the learner that change the labeler, as JSON types."""
    reads_votes: bool = False
    """Whether the labels are made of the personal model's, as its labeler says too."""
    by_group: bool = True
    """Whether it protects a patient with several records as it does one record."""
    in_floats: bool = False
    """Whether noise is added to sums of floating-point numbers, which the privacy sheet says."""


OF_STUDENTS: Final = "fedkt-l2"
"""The protection that covers the votes of students alone: noise on their teachers' votes, as ``[transfer]`` says."""

PROTECTIONS: Final[Mapping[str, Protection]] = MappingProxyType(
    {
        "none": Protection(leaves="the labels of the model itself, without noise", extra="", reads_votes=True),
        "dp-sgd": Protection(
            labeler="fedct_flwr.labelers.dp_sgd:labeler",
            leaves="the labels of a network of their own, in whose training no record's gradient counts for more than "
            "a fixed length and noise is added to every step",
            own=("clipping-norm",),
            needs_delta=True,
            extra="dp-sgd",
            of_learner=_network,
            by_group=False,
            in_floats=True,
        ),
        "dp-linear": Protection(
            labeler="fedct_flwr.labelers.dp_linear:labeler",
            leaves="the labels of a linear model on features learned from the public set, trained once by gradients "
            "with noise",
            of_auto="the silo chooses its own model by its records, and nothing of it leaves: the labels are those of "
            "a linear model that depends on no choice",
            needs_delta=True,
            of_learner=lambda learner: {},
        ),
        "randomized-response": Protection(
            labeler="fedct_flwr.labelers.labeler:randomized",
            leaves="the labels of the model, each of them replaced by another class at random so often that none tells "
            "much",
            of_auto="the silo chooses its model by its records, and its epsilon covers the choice: each label is "
            "changed at random, whichever model says it",
            reads_votes=True,
        ),
        OF_STUDENTS: Protection(leaves=""),
    }
)
"""By the names that settings give them."""

OF_LABELS: Final = tuple(name for name in PROTECTIONS if name != OF_STUDENTS)
"""Protections of labels, and none at all."""

OF_PROTECTION: Final[Mapping[str, Uses]] = {
    name: uses("epsilon", "delta", *entry.own) if entry.labeler else {} for name, entry in PROTECTIONS.items()
}
"""Each protection's settings, in a run config and under ``[privacy]``, which has a plan besides."""


def check_delta(protection: str, delta: float) -> None:
    """Raise ValueError for a protection that promises nothing at this delta."""
    if PROTECTIONS[protection].needs_delta and not delta:
        raise ValueError(f"{protection} promises nothing at delta = 0: set delta to a number such as 1e-5")


MAX_PARTITIONS: Final = 100
"""More students than anybody trains on one silo's records."""

_STUDENTS: Final = 2
_TEACHERS: Final = 5
_TEACHERS_UNDER_NOISE: Final = 25


class TransferSettings(Settings):
    """FedKT at a silo (Li, He, Song, IJCAI 2021): a student for each partition, which its own teachers label for.

    Whether there is noise on the teachers' votes (FedKT-L2) is said by ``[privacy]``: protection = "fedkt-l2".
    """

    partitions: int = Field(default=0, ge=0, le=MAX_PARTITIONS)
    """Students at most, the paper's s; 0: 2, or one with a protection. Questions for more votes are refused."""
    teachers: int = Field(default=0, ge=0, le=MAX_TEACHERS)
    """Teachers of each student, the paper's t; 0: 5, or 25 with a protection, if there are enough records."""
    noise: TransferNoise = "laplace"
    """On the teachers' votes, with a protection."""
    gamma: float = Field(default=0.0, ge=0)
    """The noise has the scale 1 / gamma in votes; 0: what keeps the budget under ``[privacy]``."""

    lessons: int = Field(default=0, ge=0, le=MAX_INT)
    """With a protection: public examples, drawn at random, that teachers label under noise and students learn from,
    whatever they are asked about then; 0: those that they are asked about. Only lessons cost privacy."""

    def lessons_for(self, asked: int, num_public: int) -> int:
        """Public examples that teachers label under noise where students are asked about ``asked``."""
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


class PrivacySettings(Settings):
    """The labeler whose labels leave instead of the personal model's, and its budget for a record in total.

    Epsilon and delta are totals over the whole study, per record of the silo, added or removed; with a group column,
    per group. The plan, ``rounds``
    and ``queries``, is what the noise is calibrated for; questions beyond the budget are refused.
    """

    protection: Annotated[str, one_of(PROTECTIONS)] = "none"
    """``none``: the personal model's own labels, without a guarantee. ``dp-sgd``: those of a network trained by noisy
    gradients over the rounds, in steps of its own: not the learner's batch-size, local-steps, learning-rate,
    weight-decay, pseudo-weight and class-weight. ``dp-linear``: of a linear model on features learned from the public
    set, trained once, with a plan of its own too. ``randomized-response``: the personal model's, each of them changed
    at random. ``fedkt-l2``: no labels, but votes of students whose teachers' votes get noise, see ``[transfer]``."""
    epsilon: float = Field(default=1.0, gt=0)
    """For each record, or patient with a group column, in total over the whole study with all its runs. A smaller one
    protects more. To raise it needs a new approval, and what was spent stays so."""
    delta: float = Field(default=1e-5, ge=0, lt=1)
    """The chance that epsilon does not hold, in total; well below one divided by the number of records."""
    rounds: int = Field(default=10, ge=1, le=MAX_INT)
    """Rounds of the study, all runs together."""
    queries: int = Field(default=0, ge=0, le=MAX_INT)
    """Labels of the study, all runs together; 0: all public examples in each round."""
    clipping_norm: float = Field(default=1.0, gt=0)
    """The longest that a record's gradient may be (dp-sgd)."""

    @property
    def chosen(self) -> Protection:
        """The protection's entry."""
        return PROTECTIONS[self.protection]

    @property
    def enabled(self) -> bool:
        """Whether anything is promised."""
        return self.protection != "none"

    @property
    def decides(self) -> dict[str, object]:
        """The approved settings as JSON types. Later settings may be in it only where they have been chosen."""
        # Two settings are gone: what was approved with their defaults stays approved.
        found = {**self.model_dump(mode="json"), "teachers": 0, "noise": "gumbel"}
        return {**{name: found[name] for name in _IN_THIS_ORDER}, **found}

    def check_unit(self, *, grouped: bool) -> None:
        """Raise ConfigError for a protection of single records, where patients have several (``grouped``)."""
        if grouped and not self.chosen.by_group:
            raise ConfigError(
                f"protection = {self.protection!r} bounds what one record tells, and with a group column a patient may "
                "have several: choose another protection, such as 'dp-linear', or leave the group column out"
            )

    def after(self, drawn: float) -> Self:
        """For labels, where a drawn set takes epsilon ``drawn`` of the budget. Raises ConfigError if none is left."""
        if not (drawn and self.enabled):
            return self
        if drawn >= self.epsilon:
            raise ConfigError(
                f"[draw] and [scores] in study.toml take epsilon {drawn:g} of the {self.epsilon:g} under [privacy] in "
                "silo.toml, so nothing is left for labels: raise that, or take [draw] out where no set was drawn"
            )
        return self.model_copy(update={"epsilon": self.epsilon - drawn})

    def planned_queries(self, num_public: int) -> int:
        """Labels that the plan has."""
        return self.queries or self.rounds * num_public

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        check_delta(self.protection, self.delta)
        return self
