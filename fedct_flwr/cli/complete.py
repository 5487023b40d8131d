"""What the shell proposes for options: names from the catalogs."""

from collections.abc import Iterable


def data_sets(incomplete: str) -> list[str]:
    """Names of data sets."""
    from fedct_flwr.datasets import LOADERS

    return _beginning(incomplete, (name for name in LOADERS if name != "files"))


def algorithms(incomplete: str) -> list[str]:
    """Names of algorithms."""
    from fedct_flwr.algorithms.table import ALGORITHMS

    return _beginning(incomplete, ALGORITHMS)


def learners(incomplete: str) -> list[str]:
    """Short names of learners; of several with commas, the last is completed.

    >>> learners("svm,decision-t")
    ['svm,decision-tree']
    """
    from fedct_flwr.learners.catalog import NAMES

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(last, NAMES)]


def keys(incomplete: str) -> list[str]:
    """Keys of the run config, with an equals sign.

    >>> keys("stop-at")
    ['stop-at-fixed-point=']
    """
    from fedct_flwr.config import RunConfig

    return _beginning(incomplete, (f"{key}=" for key in RunConfig.defaults() if key not in ("resume", "run-dir")))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
