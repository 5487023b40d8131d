"""The rounds of algorithms in which silos share votes, and what is checked before them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flwr.serverapp import Grid

from fedct_flwr import coordinator, labelers, learners, models, privacy
from fedct_flwr.config.privacy import IN_SHARES, ON_COUNTS, NoisePlan, wrong_delta
from fedct_flwr.coordinator.cotraining import CoTraining, arrays_to_targets, targets_to_arrays
from fedct_flwr.coordinator.facts import empty_table
from fedct_flwr.learners import Learner, Resumable
from fedct_flwr.learners.build import named_learners
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ABSTAIN, ConfigError, RunError

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.consensus.counting import Consensus
    from fedct_flwr.coordinator.algorithm import VoteSharing
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.federated import FederatedDataset
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
        terms,
        consensus,
        study.roster,
        method.rounds,
        min_silos=config.min_silos,
        query_size=config.asked_about(terms.num_public),
        votes=method.votes,
        answer=method.kind.name if method.kind.by_name else "",
        sums=coordinator.Sums(coordinator.sum_terms(study), study.roster) if method.in_sums else None,
        noise=noise,
        excludes=method.noise is None,
        learning=method.learning,
        stop_at_fixed_point=config.stop_at_fixed_point and not trained_on,
        seed=config.seed,
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
    return facts | coordinator.add_global_model(study, targets, method.title, promise)


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
