"""Why a step of a secure sum is refused: a fixed set of faults with one sentence each. Only the number travels."""

from typing import Self

from fedct_flwr.types import FedctError, Numbered


class Fault(Numbered):
    """Faults of a message or a sum, and their remedies."""

    MALFORMED = 1, "the message is not one of this protocol's, or has another length: update the older side"
    TERMS = 2, "the message belongs to another run or to other terms: use the study folder that everybody approved"
    SESSION = 3, "the message belongs to another session of this run: set the session up again"
    SIGNATURE = 4, "a signature does not fit the silo's key in the study folder: check the keys with the coordinator"
    ROSTER = 5, "the roster has an unknown silo, one silo twice, or lacks this one: check it against the study folder"
    TOO_FEW = 6, "fewer silos take part than the terms ask for: wait for more silos and set up another sum"
    NUMBER = 7, "the sum is over, or was already answered with other contents: begin the next sum"
    SHAPE = 8, "the sum is of another length, range or subject than this silo adds: compare both sides' settings"
    VALUES = 9, "a number of this silo's vector lies outside the range of the sum: nothing was sent"
    OVERFLOW = 10, "the silos' numbers together can exceed the sum's bits: take more bits"
    REPEATED = 11, "the silo has already added to a sum on this subject: two sums of one subject can open a summand"
    SHARE = 12, "the shares that a silo dealt cannot be opened: leave this silo out"
    NOT_DEALT = 13, "the silo has not dealt shares for this sum: let it deal first"
    LISTS = 14, "there are two lists of survivors, or one that names strangers: nothing is opened"
    UNCONFIRMED = 15, "too few silos have signed the list of survivors, or one saw another sum: nothing is opened"
    SPOILED = 16, "the shares or numbers of the sum do not fit, so a silo sent garbage: discard this sum"
    UNCHARGED = 17, "the silo did not charge its ledger for this sum: nothing was sent"

    @classmethod
    def from_number(cls, number: int) -> Self:
        """The fault with this number on the wire. Raises SumRefused for an unknown number."""
        if (found := cls.find(number)) is None:
            raise SumRefused(Fault.MALFORMED)
        return found


class SumRefused(FedctError):
    """A step was refused; ``fault`` says why, ``member`` is the place on the roster of the silo at fault, if known."""

    def __init__(self, fault: Fault, member: int | None = None) -> None:
        super().__init__(fault.sentence)
        self.fault = fault
        self.member = member
