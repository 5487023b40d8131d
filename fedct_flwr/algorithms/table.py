"""All algorithms by name: each is a class in a file of its own, here or among the baselines.

To add one, write that file. Nothing else names it.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

from fedct_flwr import algorithms, baselines
from fedct_flwr.algorithms.fedct import DawidSkene
from fedct_flwr.coordinator.algorithm import Algorithm, find_algorithm
from fedct_flwr.text.kinds import words_of
from fedct_flwr.wire.kinds import ADDED, NOISY_SUMS, SUMS, kind_for

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig

_SLOW: Final = ".checks"
"""A file that holds no algorithm and imports learners, which not every command waits for."""

ALGORITHMS: Final[dict[str, type[Algorithm]]] = {}

DEFAULT: Final = DawidSkene.name
"""The algorithm of a run config that names none."""


def what_leaves(config: "RunConfig", quantity: str) -> str:
    """Describe in plain words what leaves a silo. ``quantity``: the number that is predicted (empty: classes)."""
    algorithm, scores = find_algorithm(config), " and test scores" if config.report_scores else ""
    if algorithm.kind is None:
        return f"{algorithm.leaves}{scores}"
    kind = algorithm.kind if algorithm.kind.policy in ADDED else kind_for(algorithm.kind, quantity)
    # Where silos only add their answers, and perhaps shares of noise.
    sums = NOISY_SUMS if config.method.noise_in_shares else SUMS if config.method.in_sums else {}
    return f"{words_of(sums.get(kind.name, kind)).shared}{scores}"


def _found() -> Iterator[type[Algorithm]]:
    """The classes of these two packages that have a name."""
    for package in (algorithms, baselines):
        names = [f"{package.__name__}.{entry.name}" for entry in iter_modules(package.__path__)]
        for name in names:
            for found in [] if name.endswith(_SLOW) else list(vars(import_module(name)).values()):
                named = isinstance(found, type) and issubclass(found, Algorithm) and "name" in vars(found)
                if named and found.__module__ == name:
                    yield found


# At the end, as other files of this package import what is above.
ALGORITHMS.update((found.name, found) for found in _found())
