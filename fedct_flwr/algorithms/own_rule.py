"""A rule of one's own: a function of the votes, or a class that no table names. In this process alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.consensus.counting import Ballot, Consensus, Decide, State, plurality
from fedct_flwr.coordinator.label_sharing import LabelSharing
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Answers, ConfigError, HardLabels, RunError

Function: TypeAlias = Callable[[NDArray[np.int64]], Any]
"""Of votes ``(silos, examples)``, classes by their positions or ABSTAIN (-1), to labels ``(examples,)``."""

_NUMBER: Final = count(1)


def rule_of(given: Any) -> LabelSharing:
    """A rule as it is, or one that asks a function, known to run configs of this process. Raises ConfigError."""
    from fedct_flwr.algorithms.table import ALGORITHMS

    if callable(given) and not isinstance(given, type):
        given = _asking(given)
    if not isinstance(given, LabelSharing):
        raise ConfigError(
            f"rule is {given!r}: give a rule such as DawidSkene(), an object of a class that extends LabelSharing, or "
            "a function of votes (silos, examples) that returns labels (examples,)"
        )
    known = ALGORITHMS.setdefault(given.name, type(given))
    if known is not type(given):
        if known.__module__.startswith("fedct_flwr."):
            raise ConfigError(f"the rule {type(given).__name__} has the name of another algorithm, {given.name!r}")
        # A notebook's cell that is run again makes the class again.
        ALGORITHMS[given.name] = type(given)
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
            """What the function says of each round's votes."""
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
