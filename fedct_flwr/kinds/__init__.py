"""Kinds of a silo's answer, by name: one file each, which holds all that depends on the kind."""

from collections.abc import Iterable, Mapping
from typing import Final

from fedct_flwr.kinds.base import Kind
from fedct_flwr.kinds.hard import COUNTS, HARD, SHARES
from fedct_flwr.kinds.joint import GRADIENTS, HISTOGRAMS
from fedct_flwr.kinds.probabilities import PROBABILITIES, VALUES
from fedct_flwr.kinds.summed import NOISY_SUMS, NOTHING, SUMS, Summed
from fedct_flwr.types import ConfigError, Votes
from fedct_flwr.wire.content import Instruction, Terms
from fedct_flwr.wire.refusal import Refusal, Refused

__all__ = [
    "ADDED", "COUNTS", "GRADIENTS", "HARD", "HISTOGRAMS", "KINDS", "NOISY_SUMS", "PROBABILITIES", "SHARES", "SUMS",
    "VALUES", "check_let_out", "in_sums", "kind_by", "kind_for", "kind_in_policy", "kind_of", "kind_of_votes",
    "kinds_let_out",
]  # fmt: skip

KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (HARD, COUNTS, PROBABILITIES, VALUES, SHARES)}


_IN_POLICIES: Final[tuple[Kind, ...]] = (*KINDS.values(), *SUMS.values(), GRADIENTS, HISTOGRAMS)
"""Kinds that real silos answer: one of each name in a policy and study."""
ADDED: Final = frozenset(kind.policy for kind in (*SUMS.values(), GRADIENTS, HISTOGRAMS))
"""Policy names of the kinds that leave in secure sums alone."""


def kind_by(
    votes: int, soft: bool, terms: Terms, *, summed: bool = False, noisy: bool = False, answer: str = ""
) -> Kind:
    """The kind that an instruction with ``votes``, with or without ``soft``, a sum or not, noise or not, asks for.

    ``answer`` is its name where it is asked for by name. Raises Refused (MALFORMED) for another name, or one too many.
    """
    if not answer:
        policy = PROBABILITIES.policy if soft else COUNTS.policy if votes else HARD.policy
        fitting = (kind for kind in KINDS.values() if kind.fits(terms.quantity) or not soft)
        kind = next(kind for kind in fitting if kind.policy == policy)
    else:
        named = KINDS.get(answer)
        if named is None or not named.by_name or not named.fits(terms.quantity):
            raise Refused(Refusal.MALFORMED)
        if votes or (soft and not named.with_soft):
            raise Refused(Refusal.MALFORMED)
        kind = named
    return in_sums(kind, noisy=noisy) if summed else kind


def in_sums(kind: Kind, *, noisy: bool = False) -> Summed:
    """The kind with which a secure sum takes the place of a kind's answers. Raises Refused where there is none.

    ``noisy``: whether silos add shares of noise.
    """
    sums: Mapping[str, Summed] = NOISY_SUMS if noisy else SUMS
    if kind.name not in sums:
        raise Refused(Refusal.QUERY)
    return sums[kind.name]


def kind_of(instruction: Instruction, terms: Terms) -> Kind:
    """The kind that an instruction asks for."""
    if instruction.histograms is not None:
        return HISTOGRAMS
    if instruction.joint is not None:
        return GRADIENTS
    asked = instruction.votes, instruction.soft is not None, terms
    return kind_by(*asked, summed=instruction.summed, noisy=bool(instruction.noise), answer=instruction.answer)


def kind_of_votes(votes: Votes, terms: Terms) -> Kind:
    """The kind of a silo's votes, by their type and number of axes."""
    if votes.ndim == NOTHING.ndim:
        return SUMS[HARD.name]
    if votes.ndim == 1:
        return HARD
    return kind_for(PROBABILITIES, terms.quantity) if votes.dtype.kind == "f" else COUNTS


def kind_for(kind: Kind, quantity: str) -> Kind:
    """The kind for predicting a ``quantity`` (empty: classes): values replace probabilities."""
    fitting = [other for other in KINDS.values() if other.fits(quantity)]
    return next((other for other in fitting if other.policy == kind.policy), fitting[0])


def kinds_let_out(names: Iterable[str], terms: Terms, *, noisy: bool = False) -> list[Kind]:
    """The kinds that a silo's policy permits by these names, in a study with these terms.

    ``noisy``: where sums leave with noise alone.
    """
    known: Iterable[Kind] = NOISY_SUMS.values() if noisy else _IN_POLICIES
    return [kind for name in names for kind in known if kind.policy == name and kind.fits(terms.quantity)]


def check_let_out(names: Iterable[str], terms: Terms) -> None:
    """Raise ConfigError for a policy that permits no kind that a study with these terms can ask for."""
    if not kinds_let_out(names, terms):
        fix = f"write kinds = ['{PROBABILITIES.policy}']" if terms.quantity else "name one for classes"
        raise ConfigError(f"kinds under [policy] in silo.toml holds no kind of answer that the study asks for: {fix}")


def kind_in_policy(name: str) -> Kind:
    """The kind with this name in policies, in any study."""
    return next(kind for kind in _IN_POLICIES if kind.policy == name)
