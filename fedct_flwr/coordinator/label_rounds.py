"""The rounds of algorithms in which silos share votes, what is checked before them, and the student after them.

The student is distilled from the public set and its final labels, and from nothing else: what was promised of the
labels holds of it (Li, He, Song, IJCAI 2021, Algorithm 1, last line; Papernot et al., arXiv:1610.05755, §3.1).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from flwr.serverapp import Grid

from fedct_flwr import coordinator, labelers, learners, models, privacy
from fedct_flwr.config.privacy import IN_SHARES, ON_COUNTS, NoisePlan, wrong_delta
from fedct_flwr.coordinator.cotraining import CoTraining, arrays_to_targets, targets_to_arrays
from fedct_flwr.coordinator.questions import Asking, empty_table
from fedct_flwr.files import write_json
from fedct_flwr.learners import Learner, Resumable, Saveable
from fedct_flwr.learners.build import named_learners, untrained
from fedct_flwr.learners.catalog import UNSAVED
from fedct_flwr.learners.text import transformer_for
from fedct_flwr.runs.records import GLOBAL_MODEL
from fedct_flwr.scoring import Predictor, both_accuracies
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ABSTAIN, ConfigError, HardLabels, RunError, random_state

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.consensus.counting import Consensus
    from fedct_flwr.coordinator.algorithm import VoteSharing
    from fedct_flwr.coordinator.study import Study, Subject
    from fedct_flwr.datasets.federated import FederatedDataset, PublicSet
    from fedct_flwr.datasets.schema import Schema
    from fedct_flwr.privacy.budget import Spending
    from fedct_flwr.wire.kinds import Kind


def run_label_rounds(method: "VoteSharing", study: "Study", grid: Grid) -> dict[str, Any]:
    """Co-train, write the final labels or values, and return what ``result.json`` tells. Raises RunError."""
    config, terms, checkpoint = study.config, study.terms, study.checkpoint
    # A refitted learner gives the same labels for the same targets. One that trains on may still change them, and needs
    # its model to go on. The coordinator does not know real silos' learners: there stop-at-fixed-point always holds.
    trained_on = any(isinstance(learner, Resumable) for learner in learners_of(config, study.dataset))
    goes_on = checkpoint is not None and checkpoint.round < config.rounds
    if goes_on and trained_on and method.kind.own_model and not config.save_models:
        raise RunError(
            "the networks of this run were not kept (save-models = false), so it cannot go on with them: start a "
            "new run"
        )
    consensus, spent, noise = _consensus(method, study)
    strategy = CoTraining(
        Asking(
            terms,
            consensus,
            config.asked_about(terms.num_public),
            config.seed,
            method.votes,
            method.others_weight,
            summed=method.in_sums,
            noise=noise,
            answer=method.kind.name if method.kind.by_name else "",
        ),
        study.roster,
        method.rounds,
        min_silos=config.min_silos,
        sums=coordinator.Sums(coordinator.sum_terms(study), study.roster) if method.in_sums else None,
        excludes=method.noise is None,
        stop_at_fixed_point=config.stop_at_fixed_point and not trained_on,
        folder=study.folder,
        checkpoint=checkpoint,
    )
    result = strategy.start(
        grid,
        targets_to_arrays(checkpoint.targets if checkpoint else empty_table(strategy.kind, terms.num_public)),
        num_rounds=config.rounds,
        timeout=config.round_deadline,
    )
    targets = arrays_to_targets(result.arrays)
    if not strategy.kind.labels:
        study.folder.save_values(targets, terms.quantity)
        return {"fixed_point": strategy.fixed_point}
    if config.rounds == 1 and (targets == ABSTAIN).all():
        advice = "silos disagree too much for the algorithm; lower its quorum if it has one, or change the learner"
        if config.outcome == "survival":
            advice = "no silo ranks its own records better than chance, and such silos give no grades"
        elif method.asks_once:
            advice = "train better teachers with more records each, or lower partitions or the quorum"
        asked = config.asked_about(terms.num_public)
        raise RunError(f"no label was agreed upon for any of {asked} public examples: {advice}")
    study.folder.save_labels(targets, terms.classes)
    facts: dict[str, Any] = {"fixed_point": strategy.fixed_point, **({"privacy": spent.to_result()} if spent else {})}
    if certificate := strategy.certificate:
        facts["certificate"] = certificate
    if not config.student:
        return facts
    promise = models.promised_by_noise(spent) if spent else models.promised(config, method.kind)
    return facts | add_global_model(study, targets, method.title, promise)


def _consensus(method: "VoteSharing", study: "Study") -> tuple["Consensus", "Spending | None", float]:
    """The algorithm's, with the coordinator's noise if it adds any, and what noise costs. Raises ConfigError.

    And the noise that silos add to their sum in shares, in votes of one silo; 0: none.
    """
    config, num_classes = study.config, study.terms.num_classes
    noise = method.noise
    if not noise:
        return method.consensus(num_classes), method.spent_at_silos(config, study.dataset), 0.0
    for warning in method.cautions(config, len(study.roster.silos)):
        logger.warning("%s", warning)
    queries = config.asked_about(study.terms.num_public)
    if method.noise_in_shares:
        return _in_shares(method, noise, study, queries)
    mechanism = privacy.tally_mechanism(noise, max(1, method.votes), queries)
    spent = privacy.spent_by(mechanism, queries, noise.delta)
    log_cost("Labels protect each silo as a whole, not from the coordinator", spent)
    decide = privacy.noisy(mechanism, privacy.noise_for(real=study.dataset is None))
    return method.consensus(num_classes, decide), spent, 0.0


def _in_shares(
    method: "VoteSharing", noise: NoisePlan, study: "Study", queries: int
) -> tuple["Consensus", "Spending", float]:
    """The same where silos add the noise: the coordinator adds none, and decides on what it opens."""
    terms, votes, num_classes = coordinator.sum_terms(study), max(1, method.votes), study.terms.num_classes
    honest = privacy.surely_honest(terms.min_summands, terms.may_collude)
    shares = privacy.shares_for(noise, votes, queries, num_classes, honest)
    spent = privacy.spent_on_sum(shares, votes, noise.delta, terms.may_collude)
    log_cost(
        f"Labels and counts protect each silo as a whole, from the coordinator too, if {honest} silos are honest", spent
    )
    return method.consensus(num_classes, privacy.noisiest), spent, shares.scale


def log_cost(what: str, spent: "Spending") -> None:
    """Write what noise costs to the log."""
    cost = spent.to_result()
    logger.info(
        "%s: epsilon %.4g at delta %g (%s; %s noise of scale %.4g on %s examples)",
        what, cost["epsilon"], cost["delta"], cost["accountant"], cost["mechanism"], cost["scale"], cost["queries"],
    )  # fmt: skip


def learners_of(config: "RunConfig", dataset: "FederatedDataset | None") -> list[Learner]:
    """One of each that the run config names; none for real silos, which have their own."""
    return named_learners(config, dataset) if dataset else []


def check_noise(method: "VoteSharing") -> None:
    """Raise ConfigError for noise on votes that promises nothing, or needs what is not installed."""
    if noise := method.noise:
        labelers.check_extra("privacy", f"algorithm {method.name!r} with noise")
        check_delta(noise.mechanism, noise.delta, IN_SHARES if method.noise_in_shares else ON_COUNTS)


def check_delta(mechanism: str, delta: float, names: Iterable[str] = ON_COUNTS) -> None:
    """Raise ConfigError for noise on votes that promises nothing; ``names`` are those that could be chosen."""
    if wrong := wrong_delta("mechanism", mechanism, names, delta):
        raise ConfigError(wrong)


def check_learners(kind: "Kind", given: Sequence[Learner]) -> None:
    """Raise ConfigError for a learner that cannot give such answers, or cannot learn from them."""
    for learner in given if kind.by_probabilities else ():
        learners.check_soft(learner)


def check_protection(config: "RunConfig", dataset: "FederatedDataset | None") -> None:
    """Raise ConfigError for a protection that a learner, or the smallest silo, does not allow."""
    if not dataset:
        return
    privacy = config.privacy_settings(config.asked_about(len(dataset.public)))
    smallest = min(dataset.silos, key=lambda silo: silo.units)
    privacy.check_unit(grouped=smallest.groups is not None)
    if privacy.enabled:
        dataset.check_protected()
    for position in range(len(config.learner)):
        learner = config.learner_settings(position, len(dataset.silos))
        if privacy.enabled:
            labelers.labeler_for(
                labelers.Start(privacy, learner, smallest.name, dataset.schema, dataset.public, smallest.units)
            )


def add_global_model(study: "Study", targets: HardLabels, title: str, privacy: Mapping[str, Any]) -> dict[str, Any]:
    """Train the student that the run config names on ``targets`` ``(num_public,)``, and keep it with its card.

    ``privacy`` is what the card says is promised. Returns what ``result.json`` tells.
    Scores are of the pooled test set, where there is one. Raises RunError if no example is labeled or the files
    cannot be written, TrainingError.
    """
    config, subject, folder = study.config, study.subject, study.folder
    student = make_student(config, subject.schema, subject.public)
    labels = train_student(student, subject.public, targets)
    path = folder.global_model(cast(Saveable, student.learner).suffix)
    scores: dict[str, dict[str, float | None]] = {}
    most: float | None = None
    if subject.test.size:
        scores["student"] = _scores(student.learner, subject)
        most = float(np.bincount(subject.test.y).max() / subject.test.size)
    try:
        path.parent.mkdir(exist_ok=True)
        description = models.description_of(config.study, subject.schema, config.student_settings(), subject.public.X)
        content = models.save_model(path, student.learner, student.transformer, description)
        facts = models.card_of(
            config,
            title,
            public_fingerprint=study.terms.public_fingerprint.hex(),
            num_public=len(subject.public),
            labels=labels,
            rounds=len(folder.rounds()),
            privacy=privacy,
            file=path.name,
            content=content,
        )
        write_json(path.with_suffix(".json"), facts)
    except OSError as error:
        raise RunError(
            f"cannot write the global model to {path}: {error.strerror}; fix that, then resume the run"
        ) from error
    logger.info(
        "Global model: %s, trained on %s public labels%s", path, labels,
        "".join(f"; accuracy of the {name}: {s['accuracy']:.3f}" for name, s in scores.items())
        + ("" if most is None else f" (of the most frequent class alone: {most:.3f})"),
    )  # fmt: skip
    result = {"file": str(path.relative_to(folder.path)), "labels": labels, "scores": scores}
    return {GLOBAL_MODEL: result if most is None else {**result, "most_frequent_class": most}}


def _scores(model: Predictor, subject: "Subject") -> dict[str, float | None]:
    accuracy, balanced = both_accuracies(model, subject.test)
    # Of one class alone there is none.
    return {"accuracy": accuracy, "balanced_accuracy": None if math.isnan(balanced) else balanced}


class Student(NamedTuple):
    """A learner and the transformer it looks at features through (None for none)."""

    learner: Learner
    transformer: Any


def make_student(config: "RunConfig", schema: "Schema", public: "PublicSet") -> Student:
    """The untrained student of the run config. Raises ConfigError if it cannot be made or saved, DataError."""
    settings = config.student_settings()
    transformer = transformer_for(settings, schema, public.X)
    learner = untrained(
        settings,
        random_state(config.seed, "student"),
        schema.classes,
        public.X[:2],
        transformer,
        total_steps=config.local_steps * config.rounds,
    )
    if config.student in UNSAVED or not models.can_be_saved(learner):
        raise ConfigError(f"models of student = {config.student!r} cannot be saved: use another learner")
    return Student(learner, transformer)


def train_student(student: Student, public: "PublicSet", targets: HardLabels) -> int:
    """Train on what ``targets`` ``(num_public,)`` label; returns how many. Raises RunError, TrainingError."""
    labeled = np.flatnonzero(targets != ABSTAIN)
    if not len(labeled):
        raise RunError(
            f"none of the {len(public)} public examples has a label, so there is nothing that a student could learn "
            "from: lower the quorum, ask more silos, or leave student out"
        )
    student.learner.fit(public.X[labeled], targets[labeled])
    return len(labeled)
