"""Mechanisms that can be chosen: an entry each, with all that settings need to know of one.

To add a mechanism, write it in a file of its own under ``privacy/mechanisms/`` (as a ``CountNoise``, if votes are to be
counted under it), enter it here, and describe its output probabilities in ``tests/privacy/mechanisms/cases.py``; the
conformance tests do the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple, TypeAlias

from fedct_flwr.config.settings import one_of
from fedct_flwr.config.uses import either


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A mechanism as settings know it."""

    made_by: str
    """Import path of its class, ``module:name``."""
    on_counts: bool = False
    """Whether it is noise of a scale in votes on counts of votes, so that ``mechanism`` in a run config may name it."""
    of_teachers: bool = False
    """Whether protections may take it for a silo's own teachers."""
    in_shares: bool = False
    """Whether silos can add it, each a share of it, so that the sum of all shares is this noise."""
    needs_delta: bool = False
    """Whether it promises nothing at delta = 0."""


MECHANISMS: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        "xor": Entry(made_by="fedct_flwr.privacy.mechanisms.xor:Xor"),
        "randomized-response": Entry(made_by="fedct_flwr.privacy.mechanisms.randomized_response:RandomizedResponse"),
        "laplace": Entry(made_by="fedct_flwr.privacy.mechanisms.laplace:Laplace", on_counts=True),
        "gaussian": Entry(
            made_by="fedct_flwr.privacy.mechanisms.gaussian:Gaussian",
            on_counts=True,
            of_teachers=True,
            in_shares=True,
            needs_delta=True,
        ),
        "gumbel": Entry(made_by="fedct_flwr.privacy.mechanisms.gumbel:Gumbel", on_counts=True, of_teachers=True),
    }
)
"""By the names that settings give them."""

ON_COUNTS: Final = tuple(name for name, entry in MECHANISMS.items() if entry.on_counts)
"""Those for counts of votes."""

IN_SHARES: Final = tuple(name for name in ON_COUNTS if MECHANISMS[name].in_shares)
"""Those among them that silos can add in shares."""

OF_TEACHERS: Final = tuple(name for name in ON_COUNTS if MECHANISMS[name].of_teachers)
"""Those among them for a silo's own teachers."""


TallyNoise: TypeAlias = Annotated[str, one_of(("", *ON_COUNTS))]
"""Noise on all silos' votes; empty: what the algorithm takes by default."""
TransferNoise: TypeAlias = Annotated[str, one_of(ON_COUNTS)]
"""Noise on the votes of students' teachers."""
VoteNoise: TypeAlias = Annotated[str, one_of(OF_TEACHERS)]
"""Noise on the votes of a silo's own teachers."""


class NoisePlan(NamedTuple):
    """Noise on counts of votes, for this epsilon and delta in total."""

    mechanism: str
    """A name of ``ON_COUNTS``."""
    epsilon: float
    delta: float
    gamma: float = 0.0
    """The noise has the scale 1 / gamma in votes, whatever that costs; 0: what epsilon and delta call for."""


def wrong_delta(key: str, name: str, names: Iterable[str], delta: float) -> str:
    """What is wrong with this delta for the mechanism that ``key`` names, one of ``names``; empty if nothing is.

    >>> wrong_delta("noise", "gaussian", ("gaussian", "gumbel"), 0.0)
    "Gaussian noise promises nothing at delta = 0: set delta to 1e-5, say, or noise to 'gumbel'"
    """
    if delta > 0 or not MECHANISMS[name].needs_delta:
        return ""
    instead = [other for other in names if not MECHANISMS[other].needs_delta]
    other = f", or {key} to {either(instead)}" if instead else ""
    return f"{name.capitalize()} noise promises nothing at delta = 0: set delta to 1e-5, say{other}"
