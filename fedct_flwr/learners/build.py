"""From the run config to a learner that is ready for one silo."""

import sys

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.catalog import make, package
from fedct_flwr.learners.sklearn import SklearnLearner, prepare
from fedct_flwr.seeding import random_state
from fedct_flwr.types import DataError, Features


def build_learner(config: RunConfig, dataset: FederatedDataset, position: int, private: Features) -> Learner:
    """The learner of the silo at ``position``, untrained.

    Statistics for preprocessing come from the public set and ``private`` ``(n, ...)``. Its random state does not
    depend on the round: with the same data and targets a silo gives the same labels, so fixed points exist.
    Raises ConfigError for an unknown learner or parameter, or one that takes no weights where pseudo-weight needs
    them; DataError for features that cannot be preprocessed.
    """
    name, params = config.learner_spec(position, len(dataset.silos))
    seed = random_state(config.seed, "learner", dataset.silos[position].name)
    transformer = None
    if config.preprocessing == "standard":
        transformer = preprocessing.standard(dataset.schema, np.concatenate([dataset.public.X, private]))
    first = private[:1] if transformer is None else transformer.transform(private[:1].astype(np.float64))
    num_classes = len(dataset.schema.classes)
    wanted = {"num_classes": num_classes, "num_features": int(np.prod(first.shape[1:]))}
    model = make(name, params, **wanted)
    if not _is_network(model):
        estimator = prepare(model, name, seed)
        if private.ndim != 2:
            raise DataError(
                f"learner {name!r} needs a table, but features have shape {private.shape[1:]}: use a network"
            )
        return SklearnLearner(estimator, transformer, weighted=config.pseudo_weight != 1.0, packages=[package(name)])

    from fedct_flwr.learners.torch_net import TorchLearner, Training

    training = Training(
        steps=config.local_steps,
        total_steps=config.local_steps * config.num_server_rounds,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    learner = TorchLearner(
        lambda: make(name, params, **wanted),
        num_classes,
        training,
        seed=seed,
        device=config.device,
        transformer=transformer,
    )
    learner.check_output(private)
    return learner


def _is_network(model: object) -> bool:
    # Without importing torch, which takes seconds and may not be there: what is no module has not imported it either.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
