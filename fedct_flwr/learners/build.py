"""From settings to a learner that is ready for one silo."""

import sys
from typing import Any

import numpy as np

from fedct_flwr.config import LearnerSettings, RunConfig
from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.automatic import Automatic
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.catalog import SOME_REGRESSORS, make, make_regressor, packages
from fedct_flwr.learners.colluder import Colluder
from fedct_flwr.learners.regressor import SklearnRegressor, prepare_regressor
from fedct_flwr.learners.sklearn import SklearnLearner, prepare
from fedct_flwr.seeding import random_state
from fedct_flwr.types import DataError, Features, LearnerError, SiloName


def build_learner(config: RunConfig, dataset: FederatedDataset, position: int, private: Features) -> Learner:
    """The learner of the simulated silo at ``position``, untrained. Raises what ``learner_for`` does."""
    if config.corruption == "collusion" and dataset.silos[position].name in config.bad_silos:
        return Colluder(config.corruption_number)
    return named_learner(config, dataset, position, private)


def named_learners(config: RunConfig, dataset: FederatedDataset) -> list[Learner]:
    """One of each that the run config names, untrained, also where a silo colludes. Raises as ``learner_for``."""
    positions = range(len(config.learner))
    return [named_learner(config, dataset, position, dataset.silos[position].private.X) for position in positions]


def named_learner(config: RunConfig, dataset: FederatedDataset, position: int, private: Features) -> Learner:
    """The learner that the run config names for the silo at ``position``, untrained, also where that silo colludes.

    Raises what ``learner_for`` does.
    """
    return learner_for(
        config.learner_settings(position, len(dataset.silos)),
        dataset.silos[position].name,
        dataset.schema,
        dataset.public,
        private,
        total_steps=config.local_steps * config.rounds,
    )


def learner_for(
    settings: LearnerSettings,
    silo: SiloName,
    schema: Schema,
    public: PublicSet,
    private: Features,
    *,
    total_steps: int = 1000,
) -> Learner:
    """The learner that a silo's settings describe, untrained.

    ``total_steps`` are those of a network that only fits, unless its settings have epochs. Statistics for preprocessing
    come from the public set and ``private`` ``(n, ...)``. Its random state does not depend on the round: with the same
    data and targets a silo gives the same labels, so fixed points exist. Raises ConfigError for an unknown learner or
    parameter, or one that takes no weights where pseudo-weight needs them; DataError for features that cannot be
    preprocessed.
    """
    transformer = None
    if settings.preprocessing == "standard":
        transformer = preprocessing.standard(schema, np.concatenate([public.X, private]))
    seed = random_state(settings.seed, "learner", silo)
    # What is tried out first are public examples: a record must not decide whether there is a learner.
    return untrained(settings, seed, len(schema.classes), public.X[:2], transformer, total_steps=total_steps)


def untrained(
    settings: LearnerSettings,
    seed: int,
    num_classes: int,
    examples: Features,
    transformer: Any,
    *,
    total_steps: int = 1000,
) -> Learner:
    """A learner with this random state and this fitted transformer, for features like those of ``examples`` (a few).

    Without classes it is one for a quantity. Raises as ``learner_for``.
    """
    if settings.name == AUTO:
        return _automatic(settings, seed, num_classes, examples, transformer)
    name = settings.name
    wanted = wanted_of(num_classes or 1, examples, transformer)
    if not num_classes:
        estimator = prepare_regressor(make_regressor(name, settings.params, **wanted), name, seed)
        return SklearnRegressor(estimator, transformer, packages=packages(name))
    model = make(name, settings.params, **wanted)
    if not is_network(model):
        estimator = prepare(model, name, seed)
        if examples.ndim != 2:
            raise DataError(
                f"learner {name!r} needs a table, but features have shape {examples.shape[1:]}: use a network"
            )
        weighted = settings.full_weight != 1.0
        return SklearnLearner(
            estimator, transformer, weighted=weighted, balanced=settings.balanced, packages=packages(name)
        )

    from fedct_flwr.learners.torch_net import TorchLearner, Training

    training = Training(
        steps=settings.local_steps,
        total_steps=total_steps,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        optimizer=settings.optimizer,
        balanced=settings.balanced,
        epochs=settings.epochs,
    )
    learner = TorchLearner(
        lambda: make(name, settings.params, **wanted),
        num_classes,
        training,
        seed=seed,
        device=settings.device,
        transformer=transformer,
    )
    learner.check_output(examples)
    return learner


def _automatic(settings: LearnerSettings, seed: int, num_classes: int, examples: Features, transformer: Any) -> Learner:
    """A learner that chooses for itself, where there is something to choose from. Raises LearnerError."""
    if settings.params:
        raise LearnerError(f"learner {AUTO!r} takes no parameters: name a learner, or leave learner-params out")
    if not num_classes:
        raise LearnerError(f"learner {AUTO!r} predicts classes, and here a number is predicted: {SOME_REGRESSORS}")
    if examples.ndim != 2:
        raise LearnerError(
            f"learner {AUTO!r} is for tables, but features have shape {examples.shape[1:]}: name a network, such as "
            "that of examples/own_network"
        )
    return Automatic(num_classes, settings.seed, seed, transformer, balanced=settings.balanced)


def wanted_of(num_classes: int, examples: Features, transformer: Any) -> dict[str, int]:
    """What a function that makes networks may ask for: classes, and features after the transformer, if there is one."""
    first = examples[:1] if transformer is None else transformer.transform(examples[:1].astype(np.float64))
    return {"num_classes": num_classes, "num_features": int(np.prod(first.shape[1:]))}


def is_network(model: object) -> bool:
    """Whether it is a torch module."""
    # Without importing torch, which takes seconds and may not be there: what is no module has not imported it either.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
