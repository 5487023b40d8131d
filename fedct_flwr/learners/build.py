"""From settings to a learner that is ready for one silo."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from fedct_flwr import learners
from fedct_flwr.config.learner import AUTO, LearnerSettings
from fedct_flwr.datasets.federated import AXES, FederatedDataset, PublicSet
from fedct_flwr.datasets.schema import Schema, as_labels
from fedct_flwr.learners.catalog import LANGUAGE, TRANSFORMER, is_network, make, output_of, packages
from fedct_flwr.learners.preprocessing import standard
from fedct_flwr.learners.sklearn import SklearnLearner, SklearnRegressor, prepare
from fedct_flwr.learners.trained_model import apply
from fedct_flwr.text.printable import suggest
from fedct_flwr.types import DataError, Features, LearnerError, SiloName, random_state

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.learners import Learner

AUGMENT: Final = "augment"
"""A parameter of all networks: how images are changed at random while they train, see ``learners.networks``."""
_UNTRAINED: Final[WeakKeyDictionary[FederatedDataset, dict[tuple["RunConfig", int], SklearnLearner]]] = (
    WeakKeyDictionary()
)
"""Learners by run config and position, with their preprocessing: a few kilobytes each, as long as the data are held."""


def named_learners(config: "RunConfig", dataset: FederatedDataset) -> list["Learner"]:
    """One of each that the run config names, untrained. Raises what ``learner_for`` does."""
    positions = range(len(config.learner))
    return [build_learner(config, dataset, position, dataset.silos[position].private.X) for position in positions]


def build_learner(config: "RunConfig", dataset: FederatedDataset, position: int, private: Features) -> "Learner":
    """The learner of the simulated silo at ``position``, untrained. Raises what ``learner_for`` does."""
    known = _UNTRAINED.setdefault(dataset, {})
    own = private is dataset.silos[position].private.X
    if own and (config, position) in known:
        return copy(known[config, position])
    learner = learner_for(
        config.learner_settings(position, len(dataset.silos)),
        dataset.silos[position].name,
        dataset.schema,
        dataset.public,
        private,
        total_steps=config.local_steps * config.rounds,
    )
    if own and isinstance(learner, SklearnLearner):
        # A copy is trained, so that no model is held on to.
        known[config, position] = copy(learner)
    return learner


def learner_for(
    settings: LearnerSettings,
    silo: SiloName,
    schema: Schema,
    public: PublicSet,
    private: Features,
    *,
    total_steps: int = 1000,
) -> "Learner":
    """The learner that a silo's settings describe, untrained.

    ``total_steps`` are those of a network that only fits, unless its settings have epochs. Preprocessing is fitted to
    the public set and ``private`` ``(n, ...)``. The random state does not depend on the round, so fixed points exist.
    Raises ConfigError for a wrong learner or parameter; DataError for features that cannot be preprocessed.
    """
    seed = random_state(settings.seed, "learner", silo)
    if schema.follow_up:
        return learners.survival_learner(settings, seed, silo, standard(schema, public.X, private))
    transformer = learners.transformer_for(settings, schema, public.X, private)
    # The trial uses public examples: a record must not decide whether there is a learner.
    return untrained(settings, seed, schema.classes, public.X[:2], transformer, total_steps=total_steps)


def untrained(
    settings: LearnerSettings,
    seed: int,
    classes: Sequence[str],
    examples: Features,
    transformer: Any,
    *,
    total_steps: int = 1000,
) -> "Learner":
    """An untrained learner for features like ``examples``; without ``classes`` for a quantity. As ``learner_for``."""
    num_classes = len(classes)
    if settings.name == AUTO:
        return _automatic(settings, seed, num_classes, examples, transformer)
    name = settings.name
    wanted = wanted_of(num_classes or 1, examples, transformer)
    if not num_classes:
        model = make(name, settings.params, number=True, **wanted)
        estimator = prepare(model, name, seed, number=True)
        return SklearnRegressor(estimator, transformer, packages=packages(name), output=output_of(name))
    params, augment = split_augment(settings.params)
    if name in LANGUAGE:
        params, augment = _beside_folder(settings, transformer), ()
    by_class = _by_class(params, classes)
    model = make(name, params | by_class, **wanted)
    if not is_network(model):
        if augment:
            # Perhaps a parameter of its own; if it has none, making it says so.
            model = make(name, settings.params, **wanted)
        estimator = prepare(model, name, seed)
        if examples.ndim != 2:
            raise DataError(
                f"learner {name!r} needs a table, but features have shape {examples.shape[1:]}: use a network, such as "
                "'small-cnn' for images"
            )
        if isinstance(transformer, learners.Table):
            # It gets the categories where it needs them, as XGBoost's do.
            params = estimator.get_params(deep=True)
            estimator.set_params(**{key: True for key in params if key.split("__")[-1] == "enable_categorical"})
        weighted = settings.full_weight != 1.0
        return SklearnLearner(
            estimator,
            transformer,
            weighted=weighted,
            balanced=settings.balanced,
            packages=packages(name),
            num_classes=num_classes,
            ways=[as_labels(classes), None] if settings.by_path or by_class else [None],
            output=output_of(name),
        )

    _check_augment(augment, examples)
    learner = learners.TorchLearner(
        partial(make, name, params, **wanted),
        num_classes,
        settings.training,
        total_steps=total_steps,
        augment=augment,
        seed=seed,
        device=settings.device,
        transformer=transformer,
    )
    learner.check_output(examples)
    return learner


def _by_class(params: Mapping[str, Any], classes: Sequence[str]) -> dict[str, Any]:
    """Parameters by class, such as weights, with labels or classes' numbers as keys: JSON and TOML have text alone."""
    labels = dict(zip(classes, as_labels(classes).tolist(), strict=True))
    numbers = {str(number): number for number in range(len(classes))}
    found: dict[str, Any] = {}
    for key, value in params.items():
        ways = [labels, numbers] if "class_weight" in key else [labels]
        for known in ways if isinstance(value, Mapping) and value else []:
            if known.keys() >= value.keys():
                found.setdefault(key, {known[name]: each for name, each in value.items()})
    return found


def _beside_folder(settings: LearnerSettings, transformer: Any) -> dict[str, Any]:
    """The parameters of the learner itself, without those of how text is read. Raises LearnerError."""
    reading = learners.reading_params(settings.params, settings.name)
    params = {key: value for key, value in settings.params.items() if key not in reading}
    if settings.name != TRANSFORMER:
        return params
    if not isinstance(transformer, learners.Tokens):
        raise LearnerError(f"learner {settings.name!r} reads tokens of text, and there are none")
    # A model file's preprocessing knows which folder its weights belong to.
    learners.same_folder(reading["folder"], transformer.fingerprint_)
    return {**params, "folder": reading["folder"]}


def _automatic(
    settings: LearnerSettings, seed: int, num_classes: int, examples: Features, transformer: Any
) -> "Learner":
    """A learner that chooses for itself. Raises LearnerError."""
    if settings.params:
        raise LearnerError(f"learner {AUTO!r} takes no parameters: name a learner, or leave learner-params out")
    if not num_classes:
        return learners.AutomaticRegressor(settings.seed, seed, transformer)
    if examples.ndim != 2 and not isinstance(transformer, learners.Views):
        raise LearnerError(
            f"learner {AUTO!r} is for tables and images, but features have shape {examples.shape[1:]}: name a network, "
            "such as that of examples/own_network"
        )
    return learners.Automatic(num_classes, settings.seed, seed, transformer, balanced=settings.balanced)


def wanted_of(num_classes: int, examples: Features, transformer: Any) -> dict[str, Any]:
    """Arguments that a function for networks may take: classes, features after the transformer, channels of images."""
    first = examples[:1] if transformer is None else apply(transformer, examples[:1])
    wanted: dict[str, Any] = {"num_classes": num_classes, "num_features": int(np.prod(first.shape[1:]))}
    return {**wanted, "num_channels": first.shape[1]} if first.ndim == AXES else wanted


def split_augment(params: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A learner's parameters without ``augment``, and the names in that. Raises LearnerError for anything else.

    >>> split_augment({"width": 8, "augment": "flip, shift"})
    ({'width': 8}, ('flip', 'shift'))
    """
    others = {key: value for key, value in params.items() if key != AUGMENT}
    given = params.get(AUGMENT, ())
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise LearnerError(f"{AUGMENT!r} in the learner's parameters must be names such as 'flip,shift'")
    return others, tuple(filter(None, names))


def _check_augment(names: Sequence[str], examples: Features) -> None:
    """Raise LearnerError for what is no way to change images, or no images."""
    if unknown := next((name for name in names if name not in learners.AUGMENTATIONS), None):
        raise LearnerError(
            f"{AUGMENT!r} in the learner's parameters names {unknown!r}: {suggest(unknown, learners.AUGMENTATIONS)}"
        )
    if names and examples.ndim != AXES:
        raise LearnerError(
            f"{AUGMENT!r} in the learner's parameters is for images, but features have shape {examples.shape[1:]}: "
            "leave it out"
        )
