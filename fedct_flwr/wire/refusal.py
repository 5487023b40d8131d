"""Why a message is refused: a fixed set of reasons, each with one sentence, and the error that carries it."""

from typing import Self

from fedct_flwr.types import FedctError, Numbered
from fedct_flwr.wire import labels_pb2


class Refusal(Numbered):
    """Reasons to refuse a message or an instruction; only the number travels, never a text."""

    MALFORMED = labels_pb2.REFUSAL_MALFORMED, "the message is not one of this protocol's"
    VERSION = labels_pb2.REFUSAL_VERSION, "the message is of another version of the protocol: update the older side"
    STUDY = labels_pb2.REFUSAL_STUDY, "the message belongs to another study"
    FINGERPRINT = labels_pb2.REFUSAL_FINGERPRINT, "the public set is not the same on both sides (fingerprints differ)"
    CLASSES = labels_pb2.REFUSAL_CLASSES, "the label space is not the same on both sides"
    ROUND = labels_pb2.REFUSAL_ROUND, "the message is of another round, or asks again with other labels"
    QUERY = (
        labels_pb2.REFUSAL_QUERY,
        "the query asks for more than the public set has, for nothing, or for too many votes",
    )
    LENGTH = labels_pb2.REFUSAL_LENGTH, "the number of labels is not the number asked for"
    UNKNOWN_CLASS = labels_pb2.REFUSAL_UNKNOWN_CLASS, "a label lies outside the label space"
    SILO = labels_pb2.REFUSAL_SILO, "the silo is not on the roster, or two nodes claim its name"
    NO_DATA = labels_pb2.REFUSAL_NO_DATA, "the silo's data cannot be used; see the log at the silo"
    TRAINING_FAILED = labels_pb2.REFUSAL_TRAINING_FAILED, "training failed; see the log at the silo"
    CONFIG = labels_pb2.REFUSAL_CONFIG, "the silo's settings are wrong; see the log at the silo"
    INTERNAL = labels_pb2.REFUSAL_INTERNAL, "an unexpected error at the silo; see the log at the silo"
    WEIGHTS = labels_pb2.REFUSAL_WEIGHTS, "the silo shares labels only, and was asked for weights"
    NOT_APPROVED = labels_pb2.REFUSAL_NOT_APPROVED, "the silo has not approved this study as it is now"
    LIMIT = labels_pb2.REFUSAL_LIMIT, "the silo has reached a limit of its policy, or is asked for more than it allows"
    NOT_LOGGED = labels_pb2.REFUSAL_NOT_LOGGED, "the silo cannot write its egress log, and releases nothing unlogged"
    STOPPING = labels_pb2.REFUSAL_STOPPING, "the silo's agent was stopped while it was at work"
    POLICY = labels_pb2.REFUSAL_POLICY, "the silo's policy does not let this kind of message out"
    NOT_AWAITED = labels_pb2.REFUSAL_NOT_AWAITED, "the answer is no longer awaited"
    PRIVACY_BUDGET = labels_pb2.REFUSAL_PRIVACY_BUDGET, "the silo's privacy budget does not cover another answer"
    LEDGER = labels_pb2.REFUSAL_LEDGER, "the silo's privacy ledger cannot be used; see the log at the silo"
    PROBABILITIES = labels_pb2.REFUSAL_PROBABILITIES, "probabilities are negative, not finite, or do not sum to 1"
    VALUES = labels_pb2.REFUSAL_VALUES, "values are not finite numbers, or far too large"

    @classmethod
    def from_number(cls, number: int) -> Self:
        """The reason with this number on the wire. Raises Refused if there is none."""
        if (found := cls.find(number)) is None:
            raise Refused(Refusal.MALFORMED)
        return found


class Refused(FedctError):
    """A message was refused; ``reason`` says why."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.sentence)
        self.reason = reason
