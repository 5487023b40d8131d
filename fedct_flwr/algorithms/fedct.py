"""FedCT: silos share hard labels, and a rule makes a consensus of them.

Abourayya et al., "Little is enough: boosting privacy by sharing only hard labels in federated semi-supervised
learning", arXiv:2310.05696. ``LabelSharing.rounds`` is its Algorithm 1.

>>> FedCT(Qualified(quorum=0.8)).settings()
{'algorithm': 'fedct-qualified', 'secure': False, 'min-summands': 0, 'may-collude': 1, 'quorum': 0.8}
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field

from fedct_flwr import coordinator
from fedct_flwr.config.method import OWN, methods
from fedct_flwr.config.privacy import IN_SHARES
from fedct_flwr.config.settings import Uses, either
from fedct_flwr.consensus.counting import Ballot, Consensus, Decide, State, certified, counting, plurality, qualified
from fedct_flwr.coordinator.algorithm import CO_TRAINING, IN_SUMS, SiloCount, VoteSharing
from fedct_flwr.types import ABSTAIN, FEWEST_SILOS, LABEL_DTYPE, Answers, ConfigError, HardLabels, RunError
from fedct_flwr.wire.kinds import HARD, Kind

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.coordinator.cotraining import CoTraining
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.learners import Learner
    from fedct_flwr.runs.run_folder import Checkpoint

Share: TypeAlias = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class LabelSharing(VoteSharing):
    """Base of algorithms whose silos answer public examples in rounds.

    A subclass states its kind, its consensus, and what else it needs. ``decide`` adds noise, and is unused without any.
    """

    kind: ClassVar[Kind] = HARD
    used: ClassVar[Uses] = CO_TRAINING
    predicts_quantities: ClassVar[bool] = False

    def rounds(self, silos: "CoTraining", rule: Consensus, begun: "Checkpoint", last: int) -> Iterator["Checkpoint"]:
        """Algorithm 1 of FedCT (arXiv:2310.05696) at the server; comments have the paper's lines.

        ``silos`` is the strategy, which asks them. A round here is what the paper does between two messages, ``b``
        steps of local training. ``labels`` are L ``(num_public,)``. ``state`` is what the rule remembers; a majority
        remembers nothing. ``begun`` is round 0, or the checkpoint of a run that is resumed.

        It differs from the paper in four ways. Silos with opposite labels are left out (``CoTraining``). Above 5,000
        public examples each round asks about a random part, and silos learn the labels of the last part alone. Learners
        other than networks are refitted each round. The caller stops at a fixed point.
        """
        # Line 1: no example has a label yet.
        labels, state = begun.targets, begun.state
        for t in range(begun.round + 1, last + 1):
            # Lines 12 and 6, 7: send L, so that P = (U, L). Lines 3 to 5, at each silo (silo/personal.py): train on D_i
            # and P, label U. Line 10: receive L_1, ..., L_m.
            heard = silos.train_and_label(t, labels, state)
            # Line 11: L is the consensus of L_1, ..., L_m.
            labels, state = heard.decided(rule, labels, state)
            yield silos.note(heard, labels, state)

    def check(self, config: "RunConfig", dataset: "FederatedDataset | None") -> None:
        """Raise ConfigError for a learner that cannot be made, or for noise that cannot keep the promise."""
        learners = coordinator.learners_of(config, dataset)
        coordinator.check_noise(self)
        self.check_silos(config, dataset, learners)

    def check_silos(self, config: "RunConfig", dataset: "FederatedDataset | None", learners: list["Learner"]) -> None:
        """Raise ConfigError for learners that the kind of answer is not for, or silos that a protection is not for.

        The smallest silo stands for all: what a protection asks of records is that there are enough.
        """
        coordinator.check_learners(self.kind, learners)
        coordinator.check_protection(config, dataset)

    def run(self, study: "Study", grid: "Grid") -> dict[str, Any]:
        """Co-train, write the final labels or values, and return what ``result.json`` tells. Raises RunError."""
        return coordinator.run_label_rounds(self, study, grid)


@dataclass(frozen=True)
class Summable(LabelSharing):
    """An algorithm whose consensus is made of the sum of all answers, which may be all that the coordinator sees."""

    secure: bool = field(default=False, kw_only=True)
    """Let silos add their answers in secure sums: the coordinator sees no single silo's. Labels are the same, but silos
    with opposite labels cannot be left out."""
    min_summands: SiloCount = field(default=0, kw_only=True)
    """For secure sums: fewest silos whose sum is opened; 0: 3, or may-collude + 2; with noise in shares, all silos."""
    may_collude: SiloCount = field(default=1, kw_only=True)
    """For secure sums: silos that may collude with the coordinator, and learn no other silo's answers."""

    @property
    def in_sums(self) -> bool:
        """Whether silos add their answers, by ``secure``."""
        return self.secure

    def fewest_summands(self, num_silos: int) -> int:
        """How many silos a secure sum must include: ``min_summands``, or enough to hide one from colluders.

        All silos where noise comes in shares.
        """
        enough = max(FEWEST_SILOS, self.may_collude + 2)
        return self.min_summands or (max(enough, num_silos) if self.noise_in_shares else enough)

    def wrong(self, config: Any) -> str:
        """Noise of which no silo can add a share."""
        if not self.noise_in_shares or self.noise is None or self.noise.mechanism in IN_SHARES:
            return ""
        return (
            f"{self.noise.mechanism} noise does not come in shares that silos can add: set mechanism to "
            f"{either(IN_SHARES)}, or secure to false for noise at the coordinator"
        )


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
    refused: ClassVar[Mapping[str, str]] = {
        "secure": f"{name} weighs each silo's votes, and a sum of votes with weights shows who cast them, so secure = "
        f"true would not hide them: set algorithm to {_COUNTING}, or leave secure out"
    }

    def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
        """A consensus that knows how good each silo is at each class (Dawid & Skene 1979; FedCT: arXiv:2310.05696)."""
        from fedct_flwr.consensus.dawid_skene import dawid_skene  # needs SciPy

        return dawid_skene(num_classes)


Rule: TypeAlias = DawidSkene | Plurality | Qualified

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
        follows the first of them. Unlike in the paper, a silo whose labels are the opposite of all others' is left out,
        with a warning; ties keep the label that an example has, or are drawn by lot.
        """
        return cls(Plurality(), pseudo_weight=1.0, warm_up_rounds=1)

    def settings(self) -> dict[str, Any]:
        more = {"pseudo-weight": self.pseudo_weight, "warm-up-rounds": self.warm_up_rounds}
        given = {key: value for key, value in more.items() if value is not None}
        return {**self.rule.settings(), **given}  # type: ignore[union-attr]


Function: TypeAlias = Callable[[NDArray[np.int64]], Any]
"""From votes ``(silos, examples)``, classes by their positions or ABSTAIN (-1), to labels ``(examples,)``. Silos are in
the order of ``Run.silos``; one that is absent from a round abstains."""

_SILOS: Final = "silos"


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
        if not is_own(known):
            raise ConfigError(f"the rule {type(given).__name__} has the name of another algorithm, {given.name!r}")
        # A notebook's cell that is run again makes the class again.
        methods()[given.name] = type(given)
    return given


def is_own(rule: type[Any]) -> bool:
    """Whether other processes lack this class of rules."""
    return not rule.__module__.startswith("fedct_flwr.") or hasattr(rule, "function")


def _asking(asked: Function) -> LabelSharing:
    label = getattr(asked, "__name__", type(asked).__name__).strip("<>") or "function"

    @dataclass(frozen=True)
    class Own(LabelSharing):
        """FedCT whose labels a function decides."""

        name: ClassVar[str] = f"{OWN}{_digest(asked)}-{label}"
        title: ClassVar[str] = "FedCT"
        rule: ClassVar[str] = label
        function: ClassVar[Any] = staticmethod(asked)

        def consensus(self, num_classes: int, decide: Decide = plurality) -> Consensus:
            """Apply the user's function to each round's votes."""
            return asking(self.function, num_classes, self.rule)

    return Own()


def _digest(asked: Function) -> str:
    """Eight digits that tell functions apart by code, defaults and closure, and objects by class and fields."""
    import joblib  # takes a while, and most runs have a rule by name

    def parts(of: Any) -> Any:
        if isinstance(of, CodeType):
            return of.co_code, of.co_names, [parts(each) for each in of.co_consts]
        if isinstance(of, FunctionType):
            cells = [parts(cell.cell_contents) for cell in of.__closure__ or ()]
            return parts(of.__code__), of.__defaults__, of.__kwdefaults__, cells
        return (parts(of.func), of.args, of.keywords) if isinstance(of, partial) else of

    try:
        return str(joblib.hash(parts(asked)))[:8]
    except Exception:  # an object that cannot be pickled may raise anything: it is a rule of its own
        return f"{id(asked):x}"


def asking(function: Function, num_classes: int, name: str) -> Consensus:
    """A consensus that remembers the silos' order alone. Its ``apply`` raises RunError for anything but labels."""

    def apply(ballots: Iterable[Ballot], incumbent: Answers, state: State, rng: Generator) -> tuple[HardLabels, State]:
        silos = state[_SILOS].tolist()
        votes = np.full((len(silos), len(incumbent)), ABSTAIN, dtype=np.int64)
        for silo, vote in ballots:
            votes[silos.index(silo)] = vote
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

    return Consensus(lambda silos: {_SILOS: np.array(silos)}, apply)
