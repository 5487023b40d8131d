"""From settings to the labeler whose labels leave a silo. The records are no argument: nothing is fitted to them."""

from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from fedct_flwr.config import LearnerSettings, PrivacySettings
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.base import Learner
from fedct_flwr.learners.build import is_network, untrained, wanted_of
from fedct_flwr.learners.catalog import make
from fedct_flwr.seeding import random_state
from fedct_flwr.types import ConfigError, Features, SiloName

if TYPE_CHECKING:
    # Needs dp_accounting, which a study without protection does not.
    from fedct_flwr.labelers.labeler import Labeler
    from fedct_flwr.labelers.public_features import PublicFeatures

_EXTRAS: Final = {"privacy": ("dp_accounting", "opendp"), "dp-sgd": ("dp_accounting", "opendp", "torch", "opacus")}


def check_installed(privacy: PrivacySettings) -> None:
    """Raise ConfigError if the protection needs a package that is not installed, naming the extra."""
    if not privacy.enabled:
        return
    check_extra("dp-sgd" if privacy.protection == "dp-sgd" else "privacy", f"protection = {privacy.protection!r}")


def check_extra(extra: str, what: str) -> None:
    """Raise ConfigError if a package of an extra, which ``what`` needs, is not installed."""
    missing = [package for package in _EXTRAS[extra] if find_spec(package) is None]
    if missing:
        raise ConfigError(f"{what} needs {', '.join(missing)}: pip install 'fedct-flwr[{extra}]'")


def check_protection(
    privacy: PrivacySettings,
    learner: LearnerSettings,
    silo: SiloName,
    schema: Schema,
    public: PublicSet,
    num_records: int,
) -> None:
    """Make the labeler of a silo, the smallest of a study, so that what is wrong is said before anything runs.

    Raises as ``labeler_for``. Takes a few seconds for noise that was not looked for before in this process.
    """
    if privacy.enabled:
        labeler_for(privacy, learner, silo, schema, public, num_records)


def decides_labeler(privacy: PrivacySettings, learner: LearnerSettings) -> dict[str, object]:
    """What makes a labeler another one, which begins anew; as JSON takes it.

    Not epsilon, delta or the plan: a labeler goes on under others, so a budget that is raised is spent on from where
    the labeler stands, and not on the same thing again.
    """
    own: dict[str, object] = {"protection": privacy.protection, "seed": learner.seed}
    if privacy.protection == "dp-linear":
        return own
    settings = learner.decides_model
    if privacy.protection == "dp-sgd":
        # It plans its training itself.
        return own | {name: settings[name] for name in ("name", "params", "preprocessing")}
    return own | {"learner": {name: value for name, value in settings.items() if name not in ("device", "packages")}}


def teachers_for(privacy: PrivacySettings, num_records: int) -> int:
    """How many teachers vote. Raises ConfigError for more teachers than records."""
    from fedct_flwr.labelers.teachers import default_teachers

    number = privacy.teachers or default_teachers(num_records)
    if number > num_records:
        raise ConfigError(
            f"there are fewer records than the {number} teachers under [privacy], and each needs some of its own: set "
            "teachers to a twentieth of the number of records, or to 0"
        )
    return number


def labeler_for(
    privacy: PrivacySettings,
    learner: LearnerSettings,
    silo: SiloName,
    schema: Schema,
    public: PublicSet,
    num_records: int,
) -> "Labeler":
    """The labeler that the settings describe, at the beginning of a study.

    Raises ConfigError for a missing extra, a learner that the protection cannot use, or a plan that the budget does not
    cover; DataError for features that cannot be preprocessed; ValueError where nothing is protected.

    Formal guarantees:
        What the labeler is depends on the settings, the public set and the number of records, which all count as
        public, and on no record.
    """
    check_installed(privacy)
    if privacy.protection == "none":
        raise ValueError("without protection no labeler answers")
    made: Labeler
    classes, seed = len(schema.classes), random_state(learner.seed, "labeler", silo)
    epsilon, delta = privacy.epsilon, privacy.delta
    if privacy.protection == "randomized-response":
        from fedct_flwr.labelers.randomized import RandomizedLabeler

        made = RandomizedLabeler(
            classes, num_queries=privacy.planned_queries(len(public)), epsilon=epsilon, delta=delta
        )
    elif privacy.protection == "dp-linear":
        from fedct_flwr.labelers.dp_linear import DpLinearLabeler

        features = _features(public, schema, random_state(learner.seed, "public features"))
        made = DpLinearLabeler(features, classes, num_records=num_records, epsilon=epsilon, delta=delta)
    elif privacy.protection == "teachers":
        from fedct_flwr.labelers.teachers import TeachersLabeler

        made = TeachersLabeler(
            _teachers(privacy, learner, silo, schema, public),
            len(public),
            classes,
            num_records=num_records,
            num_teachers=teachers_for(privacy, num_records),
            # Each public example is answered once.
            num_queries=min(privacy.planned_queries(len(public)), len(public)),
            noise_kind=privacy.noise,
            seed=seed,
            epsilon=epsilon,
            delta=delta,
        )
    else:
        transformer = _transformer(learner, schema, public)
        network = _network(learner, classes, public.X[:2], transformer)
        from fedct_flwr.labelers.dp_sgd import DpSgdLabeler, plan

        made = DpSgdLabeler(
            network,
            classes,
            num_records=num_records,
            batch_size=num_records,
            **plan(privacy.rounds)._asdict(),
            clipping_norm=privacy.clipping_norm,
            seed=seed,
            device=learner.device,
            transformer=transformer,
            epsilon=epsilon,
            delta=delta,
        )
        # Before anything is charged for it.
        made.check(public.X)
    return made


@lru_cache(maxsize=4)
def _features(public: PublicSet, schema: Schema, seed: int) -> "PublicFeatures":
    """The same for all silos of a study: in a simulation they are learned once."""
    from fedct_flwr.labelers.public_features import PublicFeatures

    return PublicFeatures(public.X, schema, seed=seed)


def _transformer(learner: LearnerSettings, schema: Schema, public: PublicSet) -> Any:
    """Preprocessing with the statistics of the public set alone, if any is wanted."""
    return preprocessing.standard(schema, public.X) if learner.preprocessing == "standard" else None


def _teachers(
    privacy: PrivacySettings, learner: LearnerSettings, silo: SiloName, schema: Schema, public: PublicSet
) -> Any:
    """Makes the teacher of a number."""
    # Teachers see no pseudo-labels, so a learner that takes no weights will do.
    settings = learner.model_copy(update={"pseudo_weight": 1.0})
    transformer = _transformer(learner, schema, public)
    steps = learner.local_steps * privacy.rounds

    def make_teacher(number: int) -> Learner:
        seed = random_state(learner.seed, "teacher", silo, number)
        return untrained(settings, seed, len(schema.classes), public.X[:2], transformer, total_steps=steps)

    make_teacher(0)  # what is wrong with the learner is said now, and not in the first round
    return make_teacher


def _network(learner: LearnerSettings, num_classes: int, examples: Features, transformer: Any) -> Any:
    """Makes the network. Raises ConfigError for a learner that is none."""
    made = partial(make, learner.name, learner.params, **wanted_of(num_classes, examples, transformer))
    if not is_network(made()):
        raise ConfigError(
            f"protection = 'dp-sgd' trains networks, and learner {learner.name!r} is none: choose a network, or "
            "another protection, such as 'dp-linear'"
        )
    return made
