"""How likely each class of each public example is (prediction consensus, distributed distillation, FedMD)."""

from typing import ClassVar, Final

from fedct_flwr.consensus.counting import agreed
from fedct_flwr.kinds.targeted import Targeted
from fedct_flwr.learners.soft import check_soft, soft_labels, train_soft
from fedct_flwr.types import HardLabels, Votes
from fedct_flwr.wire.probabilities import pack_probabilities, probabilities_size, unpack_probabilities


class Probabilities(Targeted):
    """Probabilities ``(examples, classes)``, rows sum to 1."""

    name: ClassVar[str] = "probabilities"
    of: ClassVar[str] = "probabilities"
    field: ClassVar[str] = "probabilities"
    targets_field: ClassVar[str] = "targets"
    shared: ClassVar[str] = "probabilities of the classes of public examples"
    unprotected: ClassVar[str] = (
        "the labels were made of the probabilities that the silos' own models give, without noise"
    )
    leaves: ClassVar[str] = "probabilities: one for each class of each public example that is asked about"
    in_short: ClassVar[str] = "probabilities, each counted as a label"
    beware: ClassVar[str] = (
        "Probabilities tell more than labels: how sure the model is of each public example, and so how near to its "
        "records that is. The coordinator mixes them into what each other silo learns, and with few silos these can "
        "work out much of them, with two all. No protection under [privacy] covers them. Each class's probability "
        "counts as a label towards the limits"
    )

    packed_size = staticmethod(lambda count, terms: probabilities_size(count, terms.num_classes))
    pack = staticmethod(pack_probabilities)
    unpack = staticmethod(lambda packed, count, terms: unpack_probabilities(packed, count, terms.num_classes))
    check_learner = staticmethod(check_soft)
    train = staticmethod(train_soft)
    answer = staticmethod(soft_labels)

    def agreed(self, votes: Votes, decided: HardLabels) -> float:
        """Of the likeliest classes."""
        return agreed(votes.argmax(axis=1), decided)


PROBABILITIES: Final = Probabilities()
