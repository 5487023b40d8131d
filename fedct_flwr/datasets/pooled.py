"""A data set that comes in one piece, split over simulated silos."""

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import partition
from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.seeding import generator
from fedct_flwr.types import DataError, Examples, HardLabels


def split_over_silos(
    name: str,
    schema: Schema,
    records: Examples,
    *,
    private: int,
    public: int,
    silos: int,
    config: RunConfig,
    test: Examples | None = None,
    subclasses: HardLabels | None = None,
) -> FederatedDataset:
    """``private`` records go to the silos, ``public`` ones lose their labels, the rest is for testing unless given.

    The sizes and the number of ``silos`` are the paper's; ``private-size``, ``public-size`` and ``num-silos`` of the
    run config take precedence. Silos are split IID or by Dirichlet; all share one test set, as in the paper. Where
    records have ``subclasses`` ``(n,)``, each silo has one of every class instead.
    Raises DataError if there are not enough records, ConfigError for a split that subclasses, or a ``schema`` without
    classes, do not allow.
    """
    schema.outcome.check_settings(config, "partition")
    private, public = config.private_size or private, config.public_size or public
    wanted = private + public + (test is None)
    if wanted > records.size:
        raise DataError(
            f"{name!r} has {records.size} records to split but private-size {private} and public-size {public} "
            f"need {wanted}: lower one of them"
        )
    order = generator(config.seed, "split").permutation(records.size)
    own, unlabeled, rest = np.split(order, [private, private + public])
    rng, num_silos = generator(config.seed, "partition"), config.num_silos or silos
    if subclasses is not None:
        parts = partition.one_subclass_each(records.y[own], subclasses[own], num_silos, rng)
    elif config.partition == "iid":
        parts = partition.iid(private, num_silos, rng)
    elif config.partition == "dirichlet-by-silo":
        parts = partition.dirichlet_by_silo(records.y[own], num_silos, config.dirichlet_concentration, rng)
    else:
        enough = min(10, private // num_silos // 3)
        parts = partition.dirichlet(records.y[own], num_silos, config.dirichlet_concentration, rng, enough)
    X, y = records
    nothing = Examples(X[:0], y[:0])
    return FederatedDataset(
        name=name,
        schema=schema,
        public=PublicSet(X[unlabeled]),
        silos=tuple(
            SiloData(f"silo-{number}", Examples(X[own[part]], y[own[part]]), nothing)
            for number, part in enumerate(parts, start=1)
        ),
        test=test or Examples(X[rest], y[rest]),
        truth=y[unlabeled],
    )
