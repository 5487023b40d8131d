"""Check a run's settings before anything runs. A setting without effect is an error.

Each part of a run declares what it uses: algorithms, protections, data sets and kinds of learners. Here
these declarations meet one run.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from fedct_flwr import coordinator, integrations, labelers, learners, secure_sum
from fedct_flwr.algorithms import ALGORITHMS
from fedct_flwr.config.learner import OF_NETWORKS
from fedct_flwr.config.privacy import OF_PROTECTION
from fedct_flwr.config.run import MEMORY, STUDY, RunConfig
from fedct_flwr.config.settings import Choice, Needs, Uses, either, uses, why_without_effect
from fedct_flwr.coordinator.algorithm import Algorithm, find_algorithm
from fedct_flwr.datasets.loading import OF_PUBLIC
from fedct_flwr.datasets.loading import SETTINGS as OF_DATA
from fedct_flwr.learners import Resumable
from fedct_flwr.types import ConfigError, SiloName

if TYPE_CHECKING:
    from fedct_flwr.coordinator.study import Subject
    from fedct_flwr.datasets import FederatedDataset
    from fedct_flwr.learners import Learner

_TOLD_BY_ALGORITHMS: Final = frozenset({"protection", "student", "student-params"})
"""Algorithms that do not use these say why in their own ``check``."""

_PROMISES: Final = frozenset({"epsilon", "delta"})

OF_SOME: Final = frozenset(
    {
        "clipping-norm", "delta", "epsilon", "pseudo-weight", "query-size", "report-scores", "stop-at-fixed-point",
        "warm-up-rounds",
    }
)  # fmt: skip
"""Settings of every run that only some algorithms use."""

_IN_STEPS: Final = Needs("epochs = 0", lambda config: not (config.epochs and find_algorithm(config).asks_students()))
# Others learn the same from the same records, however often.
_ONLY_NETWORKS: Final[Uses] = OF_NETWORKS | uses("warm-up-rounds", "silos-at-once")
_OF_STUDENTS: Final[Uses] = {**OF_NETWORKS, "local-steps": Needs("epochs = 0", lambda config: not config.epochs)}
_OF_REFITTED: Final = uses("stop-at-fixed-point")


def check_run(
    config: RunConfig,
    dataset: "FederatedDataset | None",
    subject: "Subject",
    silos: Collection[SiloName],
    *,
    named: Collection[str] = (),
    begun: Mapping[str, Any] | None = None,
) -> Algorithm:
    """The run's algorithm, if nothing is wrong with the settings. Raises ConfigError or DataError.

    Without a ``dataset``, silos are real. ``silos`` are all that there are. ``named`` are keys that the user has set,
    although perhaps to their defaults. ``begun`` are the settings that a resumed run began with: it keeps those that
    have no effect, except for an epsilon.
    """
    algorithm = find_algorithm(config)
    if algorithm.in_sums:
        # Either raises ConfigError for too few silos.
        if dataset is None:
            coordinator.real_terms(subject, config.roster)
            if config.method.trains_together:
                _ = subject.approved_joint
        else:
            secure_sum.simulated_terms(config, config.roster or tuple(silos))
    if dataset is None:
        config.check_real(named)
    if config.report_scores and subject.agreed_scores:
        labelers.check_extra("privacy", "[scores] in study.toml")
    given = _given(config, named)
    kept = {key for key in given if begun is not None and begun.get(key) == given[key]}
    aspects = _of_settings(config, algorithm, given)
    _refuse(config, [key for key in given if key not in kept], aspects)
    if why := "epsilon" in kept and _why("epsilon", config, aspects):
        raise ConfigError(f"{why.rpartition(': ')[0]}: this run cannot go on as it began, start a new one")
    subject.schema.outcome.check_settings(config)
    config.check_fits(silos, len(subject.public))
    subject.schema.positive(config.positive_class)
    algorithm.check(config, dataset)
    student = _student(config, subject)
    of_learners = _OF_REFITTED.keys() | _ONLY_NETWORKS.keys()
    # Other learners answer after one round, too.
    as_others = {"warm-up-rounds"} if config.warm_up_rounds == 1 else set()
    if asked := [key for key in given if key in of_learners - kept - as_others]:
        _refuse(config, asked, _of_learners(config, dataset, subject, student))
    if config.tracking == "mlflow":
        integrations.check_mlflow()
    return algorithm


def _given(config: RunConfig, named: Collection[str]) -> dict[str, Any]:
    """Settings that the user has chosen: Flower does not tell which, so those that differ from their defaults."""
    settings, defaults = config.to_flower(), {**config.method.defaults(), **RunConfig.defaults_of_run()}
    of_others = {key: None for key in named if key not in settings}
    # In the order of the run config, so that the sentence does not depend on hashes.
    return of_others | {key: settings[key] for key in defaults if settings[key] != defaults[key] or key in named}


def _refuse(config: RunConfig, keys: Collection[str], aspects: Collection[list[Choice]]) -> None:
    """Raise ConfigError for the first of these keys that an aspect of the run has no use for."""
    for key in keys:
        if why := _why(key, config, aspects):
            raise ConfigError(why)


def _why(key: str, config: RunConfig, aspects: Collection[list[Choice]]) -> str:
    why = next(filter(None, (why_without_effect(key, choices, config) for choices in aspects)), "")
    protected = config.method.protects_silos or config.method.protects_records
    unprotected = why and key in _PROMISES and not protected
    return f"nothing is protected, as {why}" if unprotected else why


def _of_settings(config: RunConfig, algorithm: Algorithm, given: Collection[str]) -> list[list[Choice]]:
    """Choices that the settings alone decide; the chosen option must use each key that is ``given``."""
    used, of_run = algorithm.uses(), RunConfig.defaults_of_run()
    # Other algorithms are imported only for a sentence that names them.
    others = ALGORITHMS if any(key not in used and (key in OF_SOME or key not in of_run) for key in given) else {}
    algorithms = {
        name: {key: need for key, need in other.uses().items() if key not in _TOLD_BY_ALGORITHMS}
        for name, other in others.items()
    }
    methods = [Choice("algorithm = {}", [config.algorithm], {**algorithms, config.algorithm: used})]
    if config.data == STUDY:
        # Real silos keep their models to themselves.
        return [methods, [Choice("simulated silos", [], {"simulated": uses("save-models")})]]
    methods.append(Choice("protection = {}", [config.protection], OF_PROTECTION))
    # A data set from another package may use all settings; tables in memory have no name to choose.
    others = {name: used for name, used in OF_DATA.items() if name not in (MEMORY, STUDY)}
    data = Choice("data = {}", [config.data], {**others, config.data: OF_DATA.get(config.data, {})})
    public = Choice("public = {}", [config.public], OF_PUBLIC)
    return [methods, [data] if config.data in OF_DATA else [], [public]]


def _student(config: RunConfig, subject: "Subject") -> "Learner | None":
    """The untrained student, None without one. Raises ConfigError if it cannot be made or saved, DataError."""
    return coordinator.make_student(config, subject.schema, subject.public).learner if config.student else None


def _of_learners(
    config: RunConfig, dataset: "FederatedDataset | None", subject: "Subject", student: "Learner | None"
) -> list[list[Choice]]:
    """Choices that depend on the learners, which have to be made before their kind is known."""
    students = []
    if student:
        chosen = ["network"] * isinstance(student, Resumable)
        students.append(Choice("a network as student", chosen, {"network": _OF_STUDENTS}))
    if dataset is None:
        return [students]
    networks = any(isinstance(learner, Resumable) for learner in learners.named_learners(config, dataset))
    of_students = [name for name, other in ALGORITHMS.items() if other.asks_students()]
    once = Needs(
        f"algorithm = {either(of_students)} or a network as student, which are trained once",
        lambda config: find_algorithm(config).asks_students(),
    )
    used = {**_ONLY_NETWORKS, "local-steps": _IN_STEPS, "epochs": once}
    words = "classes, and a network as learner" if subject.schema.outcome.number else "a network as learner"
    trained = Choice(words, ["network"] * networks, {"network": used})
    refitted = "a learner that is refitted each round, such as 'random-forest'"
    return [[trained, *students], [Choice(refitted, ["refitted"] * (not networks), {"refitted": _OF_REFITTED})]]
