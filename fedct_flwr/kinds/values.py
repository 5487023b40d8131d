"""The value of a quantity for each public example, where there are no classes (prediction consensus)."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

import numpy as np

from fedct_flwr.kinds.facts import DISTANCE, Decision, Facts, Near, facts_of_values
from fedct_flwr.kinds.targeted import Targeted
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.soft import train_on_values
from fedct_flwr.scoring import r_squared
from fedct_flwr.types import Answers, Examples, Features, SiloName, SoftVotes, Votes
from fedct_flwr.wire.content import Fit, Scores, Terms
from fedct_flwr.wire.values import pack_values, unpack_values, values_size


class Values(Targeted):
    """Values ``(examples, 1)``."""

    name: ClassVar[str] = "values"
    of: ClassVar[str] = "values"
    field: ClassVar[str] = "values"
    targets_field: ClassVar[str] = "values"
    scores: ClassVar[type[Scores] | type[Fit]] = Fit
    labels: ClassVar[bool] = False
    near: ClassVar[Near] = DISTANCE
    shared: ClassVar[str] = "predicted values of public examples"
    leaves: ClassVar[str] = "values: the number that the model predicts for each public example that is asked about"
    in_short: ClassVar[str] = "values, each counted as a label"

    def fits(self, quantity: str) -> bool:
        """Where a quantity is predicted."""
        return bool(quantity)

    packed_size = staticmethod(lambda count, terms: values_size(count))
    pack = staticmethod(pack_values)
    unpack = staticmethod(lambda packed, count, terms: unpack_values(packed, count))
    train = staticmethod(train_on_values)

    def answer(self, learner: Learner, X: Features, num_classes: int) -> SoftVotes:
        """The learner's predictions."""
        values: SoftVotes = learner.predict(X).astype(np.float32)[:, np.newaxis]
        return values

    def score(self, learner: Learner, own: Examples, pooled: Examples) -> Scores | Fit:
        """R², as there are no classes."""
        return Fit(r_squared(learner, own), r_squared(learner, pooled))

    def facts(
        self, votes: Mapping[SiloName, Votes], scores: Iterable[Scores | Fit | None], decision: Decision, terms: Terms
    ) -> Facts:
        """How far silos lie off the consensus."""
        return facts_of_values(votes, decision)

    def empty_table(self, num_public: int) -> Answers:
        """No value."""
        return np.full(num_public, np.nan, dtype=np.float32)

    def predicted(self, terms: Terms) -> str:
        """The quantity's name."""
        return terms.quantity


VALUES: Final = Values()
