"""What a silo answers, by name: a file each, which holds all that depends on the kind."""

from collections.abc import Iterable
from typing import Final

from fedct_flwr.kinds.base import Kind
from fedct_flwr.kinds.counts import COUNTS
from fedct_flwr.kinds.hard import HARD
from fedct_flwr.kinds.probabilities import PROBABILITIES
from fedct_flwr.kinds.values import VALUES
from fedct_flwr.types import Votes
from fedct_flwr.wire.content import Instruction, Terms

__all__ = [
    "COUNTS", "HARD", "KINDS", "PROBABILITIES", "VALUES",
    "kind_by", "kind_for", "kind_in_policy", "kind_of", "kind_of_votes", "kinds_let_out",
]  # fmt: skip

KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (HARD, COUNTS, PROBABILITIES, VALUES)}


def kind_by(votes: int, soft: bool, terms: Terms) -> Kind:
    """The kind that an instruction with ``votes`` and with or without ``soft`` asks for."""
    return next(kind for kind in KINDS.values() if kind.is_asked(votes, soft, terms))


def kind_of(instruction: Instruction, terms: Terms) -> Kind:
    """The kind that an instruction asks for."""
    return kind_by(instruction.votes, instruction.soft is not None, terms)


def kind_of_votes(votes: Votes, terms: Terms) -> Kind:
    """The kind of what a silo answers, by its type and number of axes."""
    return next(kind for kind in KINDS.values() if kind.holds(votes, terms))


def kind_for(kind: Kind, quantity: str) -> Kind:
    """What takes a kind's place where a ``quantity`` is predicted (empty: classes): values that of probabilities."""
    fitting = [other for other in KINDS.values() if other.fits(quantity)]
    return next((other for other in fitting if other.policy == kind.policy), fitting[0])


def kinds_let_out(names: Iterable[str], terms: Terms) -> list[Kind]:
    """The kinds that a silo's policy lets out by these names, in a study with these terms."""
    return [kind for name in names for kind in KINDS.values() if kind.policy == name and kind.fits(terms.quantity)]


def kind_in_policy(name: str) -> Kind:
    """The kind that a policy calls so, whatever the study."""
    return next(kind for kind in KINDS.values() if kind.policy == name)
