"""FedCT: silos share hard labels, and a rule makes a consensus of them.

Abourayya et al., "Little is enough: boosting privacy by sharing only hard labels in federated semi-supervised
learning", arXiv:2310.05696, Algorithm 1. With the joint labeler (``labelers/joint_linear.py``) silos train one
labeler by noisy secure sums, and all learn its labels; its rounds: ``coordinator/joint.py``.

>>> FedCT(Qualified(quorum=0.8)).settings()
{'algorithm': 'fedct-qualified', 'secure': False, 'min-summands': 0, 'may-collude': 1, 'quorum': 0.8}
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field

from fedct_flwr import coordinator, labelers, learners
from fedct_flwr.config.method import methods
from fedct_flwr.config.settings import Uses, uses
from fedct_flwr.consensus.counting import (
    Ballot,
    Consensus,
    Decide,
    State,
    certified,
    counting,
    plurality,
    qualified,
    shares_of_votes,
)
from fedct_flwr.coordinator.algorithm import CO_TRAINING, IN_SUMS, LabelSharing, Summable
from fedct_flwr.coordinator.joint_plan import JointSettings, simulated_plan
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Answers, ConfigError, HardLabels, RunError
from fedct_flwr.wire.content import STEPS
from fedct_flwr.wire.kinds import GRADIENTS, SHARES, Kind

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.questions import Learning
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.federated import FederatedDataset

Share: TypeAlias = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class Plurality(Summable):
    """All votes count the same, as in the paper; ``secure``: in sums that open no silo's votes."""

    name: ClassVar[str] = "fedct"
    title: ClassVar[str] = "FedCT"
    rule: ClassVar[str] = "majority"
    used: ClassVar[Uses] = CO_TRAINING | IN_SUMS

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Every silo's hard label counts, the plurality wins (Abourayya et al., arXiv:2310.05696, Alg. 1)."""
        return counting(num_classes, plurality, certified)


@dataclass(frozen=True)
class Qualified(Summable):
    """Labels with less than the share ``quorum`` of the votes are dropped for the round."""

    name: ClassVar[str] = "fedct-qualified"
    title: ClassVar[str] = "FedCT"
    rule: ClassVar[str] = "qualified majority"
    used: ClassVar[Uses] = CO_TRAINING | IN_SUMS

    quorum: Share = 0.9
    """Share of the votes cast that a label needs."""

    def __post_init__(self) -> None:
        if not 0 < self.quorum <= 1:
            raise ConfigError(f"quorum is {self.quorum}: set it above 0, and to 1 at most")

    @property
    def facts(self) -> dict[str, Any]:
        return {"quorum": self.quorum}

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """A qualified majority: labels below the quorum are dropped for the round (arXiv:2310.05696, §5)."""
        return counting(num_classes, partial(qualified, quorum=self.quorum), partial(certified, quorum=self.quorum))


_COUNTING: Final = f"{Plurality.name!r} or {Qualified.name!r}"


@dataclass(frozen=True)
class DawidSkene(LabelSharing):
    """Votes weighed by how good each silo is at each class."""

    name: ClassVar[str] = "fedct-dawid-skene"
    title: ClassVar[str] = "FedCT"
    rule: ClassVar[str] = "Dawid-Skene"
    # With any number of silos that a sum takes: benchmarks/results/secure-sum-dawid-skene.md reads them.
    refused: ClassVar[Mapping[str, str]] = {
        "secure": f"{name} weighs each silo's votes, and a sum of votes with weights shows who cast them, so secure = "
        f"true would not hide them: set algorithm to {_COUNTING}, or leave secure out"
    }

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """A consensus that knows how good each silo is at each class (Dawid & Skene 1979; FedCT: arXiv:2310.05696)."""
        from fedct_flwr.consensus.dawid_skene import dawid_skene  # needs SciPy

        return dawid_skene(num_classes)


@dataclass(frozen=True)
class Shares(LabelSharing):
    """Silos send labels, and learn each class's share of the votes instead of the class with the most."""

    name: ClassVar[str] = "fedct-shares"
    title: ClassVar[str] = "FedCT"
    rule: ClassVar[str] = "shares of votes"
    kind: ClassVar[Kind] = SHARES

    @property
    def learning(self) -> "Learning":
        return coordinator.Learning(weight=1.0)

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """Every silo's hard label counts, and shares are learned (arXiv:2310.05696; soft targets: arXiv:1503.02531)."""
        return shares_of_votes(num_classes)


Rule: TypeAlias = DawidSkene | Plurality | Qualified | Shares

_DAWID_SKENE: Final = DawidSkene()


@dataclass(frozen=True)
class FedCT:
    """Federated co-training (Abourayya et al., arXiv:2310.05696) with a rule for the consensus.

    By default not the paper's: votes are weighed, silos' learners choose (``auto``), and each silo's own records decide
    how much pseudo-labels count. ``paper()`` is. A ``rule`` may also be a function of the votes ``(silos, examples)``
    that returns labels ``(examples,)``, or an object of one's own class that extends ``LabelSharing``. Raises
    ConfigError for anything else.
    """

    rule: "Rule | LabelSharing | Callable[[Any], Any]" = _DAWID_SKENE
    pseudo_weight: float | None = None
    """Weight of a pseudo-labeled example unless the run's settings give one; None: the run's default."""
    warm_up_rounds: int | None = None
    """After how many rounds alone networks first answer, likewise."""

    def __post_init__(self) -> None:
        if not isinstance(self.rule, Rule):
            object.__setattr__(self, "rule", rule_of(self.rule))

    @classmethod
    def paper(cls) -> "FedCT":
        """Algorithm 1 as printed: the plurality, pseudo-labels count as records do.

        The paper's period (b = 50 steps of Adam between two messages) is the default of networks. Their first answer
        follows the first of them.
        """
        return cls(Plurality(), pseudo_weight=1.0, warm_up_rounds=1)

    def settings(self) -> dict[str, Any]:
        more = {"pseudo-weight": self.pseudo_weight, "warm-up-rounds": self.warm_up_rounds}
        given = {key: value for key, value in more.items() if value is not None}
        return {**self.rule.settings(), **given}  # type: ignore[union-attr]


Function: TypeAlias = Callable[[NDArray[np.int64]], Any]
"""From votes ``(silos, examples)``, classes by their positions or ABSTAIN (-1), to labels ``(examples,)``."""

_NUMBER: Final = count(1)


def rule_of(given: Any) -> LabelSharing:
    """A rule as it is, or one that asks a function, known to run configs of this process. Raises ConfigError."""
    if callable(given) and not isinstance(given, type):
        given = _asking(given)
    if not isinstance(given, LabelSharing):
        raise ConfigError(
            f"rule is {given!r}: give a rule such as DawidSkene(), an object of a class that extends LabelSharing, or "
            "a function of votes (silos, examples) that returns labels (examples,)"
        )
    known = methods().setdefault(given.name, type(given))
    if known is not type(given):
        if known.__module__.startswith("fedct_flwr."):
            raise ConfigError(f"the rule {type(given).__name__} has the name of another algorithm, {given.name!r}")
        # A notebook's cell that is run again makes the class again.
        methods()[given.name] = type(given)
    return given


def is_own(rule: Any) -> bool:
    """Whether other processes lack it."""
    return not type(rule).__module__.startswith("fedct_flwr.") or hasattr(rule, "function")


def _asking(asked: Function) -> LabelSharing:
    label = getattr(asked, "__name__", type(asked).__name__).strip("<>") or "function"

    @dataclass(frozen=True)
    class Own(LabelSharing):
        """FedCT whose labels a function decides."""

        name: ClassVar[str] = f"fedct-own-{next(_NUMBER)}-{label}"
        title: ClassVar[str] = "FedCT"
        rule: ClassVar[str] = label
        function: ClassVar[Any] = staticmethod(asked)

        def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
            """Apply the user's function to each round's votes."""
            return asking(self.function, num_classes, self.rule)

    return Own()


def asking(function: Function, num_classes: int, name: str) -> Consensus:
    """A consensus without memory. Its ``apply`` raises RunError for anything but labels."""

    def apply(ballots: Iterable[Ballot], incumbent: Answers, state: State, rng: Generator) -> tuple[HardLabels, State]:
        votes = np.stack([np.asarray(vote, dtype=np.int64) for _, vote in ballots])
        try:
            labels = np.asarray(function(votes))
        except Exception as error:
            raise RunError(f"the rule {name} raised {type(error).__name__}: {error}") from error
        if labels.shape != incumbent.shape or labels.dtype.kind not in "iub":
            raise RunError(
                f"the rule {name} gave {labels.dtype} of shape {labels.shape}: it has to give whole numbers of shape "
                f"{incumbent.shape}, classes by their positions or {ABSTAIN}"
            )
        if len(labels) and not (labels.min() >= ABSTAIN and labels.max() < num_classes):
            raise RunError(f"the rule {name} gave a label outside of {ABSTAIN} to {num_classes - 1}")
        return labels.astype(LABEL_DTYPE), state

    return Consensus(lambda silos: {}, apply)


@dataclass(frozen=True)
class JointLabeler(JointSettings):
    """The labels of one labeler that silos train together by noisy secure sums.

    ``epsilon`` and ``delta`` hold for each record, in total, against everybody, if no more than ``may_collude`` silos
    collude.
    """

    name: ClassVar[str] = "fedct-joint"
    title: ClassVar[str] = "FedCT, joint"
    kind: ClassVar[Kind] = GRADIENTS
    fixed_rounds: ClassVar[int] = STEPS + 1
    trains_together: ClassVar[bool] = True
    used: ClassVar[Uses] = uses("student", "student-params", "report-scores", "pseudo-weight", "warm-up-rounds")

    @property
    def in_sums(self) -> bool:
        return True

    @property
    def facts(self) -> dict[str, Any]:
        return {"joint_labeler": self.joint_labeler}

    def wrong(self, config: Any) -> str:
        if config.protection != "none":
            return (
                f"algorithm {self.name!r} protects records by its own noise, and not by protection = "
                f"{config.protection!r}: leave that out"
            )
        if config.corruption == "collusion":
            return (
                "colluders send the labels of their own model, and with this algorithm gradients are added: choose "
                "another corruption, such as 'label-shift'"
            )
        return ""

    def check(self, config: "RunConfig", dataset: "FederatedDataset | None") -> None:
        """Raise ConfigError for a budget that no noise keeps, or silos that are too few to add it.

        Real silos' budget is that of their study, which their coordinator and each of them check.
        """
        labelers.check_extra("privacy", f"algorithm {self.name!r}")
        if dataset is None:
            return
        learners.named_learners(config, dataset)
        dataset.check_protected()

        step = simulated_plan(self, config, dataset, len(config.roster or dataset.silos))
        # Raises ConfigError where no noise keeps the budget.
        _ = labelers.joint_labeler(step, dataset.public, dataset.schema).noise

    def notes(self, config: "RunConfig", dataset: "FederatedDataset") -> list[str]:
        plan = simulated_plan(self, config, dataset, len(config.roster or dataset.silos))
        few, sentence = labelers.expected(plan.records, plan.epsilon, plan.delta)
        return [sentence] if few else []

    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Train the labeler, let silos learn its labels, and return what ``result.json`` tells. Raises RunError."""
        return coordinator.Training(self, study, grid).run()
