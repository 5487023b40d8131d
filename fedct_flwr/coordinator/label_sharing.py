"""Algorithms in which silos share votes (labels, counts, probabilities): rounds of them, with a consensus each."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from flwr.serverapp import Grid

from fedct_flwr.config import RunConfig
from fedct_flwr.config.mechanisms import ON_COUNTS, wrong_delta
from fedct_flwr.config.uses import Needs, Uses, uses
from fedct_flwr.consensus.counting import Consensus
from fedct_flwr.coordinator.asking import Learning
from fedct_flwr.coordinator.cotraining import CoTraining, arrays_to_targets, targets_to_arrays
from fedct_flwr.coordinator.global_model import add_global_model
from fedct_flwr.coordinator.study import Study
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.kinds import HARD
from fedct_flwr.kinds.base import Kind
from fedct_flwr.labelers.protect import check_extra, labeler_for
from fedct_flwr.learners.base import Learner, Resumable
from fedct_flwr.learners.build import named_learners
from fedct_flwr.learners.soft import check_in_turn, check_soft
from fedct_flwr.models.card import promised, promised_by_noise
from fedct_flwr.privacy.budget import PrivacyUnit, weak_delta
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ABSTAIN, ConfigError, RunError, SiloName
from fedct_flwr.wire.counts import can_count

logger = logging.getLogger("flwr.fedct")

ASKING: Final[Uses] = uses("query-size", "student", "student-params")
"""The settings of every algorithm in which silos share votes."""

_KEEPS_MODELS: Final = Needs("save-models = true", lambda config: config.save_models)
CALIBRATED: Final[Uses] = uses("calibration", needs=_KEEPS_MODELS)
"""The settings of every algorithm that leaves each silo a model of its own."""

IN_ROUNDS: Final[Uses] = ASKING | CALIBRATED | uses("report-scores", "stop-at-fixed-point")
"""And of those in which silos' own models learn from round to round."""

CO_TRAINING: Final[Uses] = IN_ROUNDS | uses("pseudo-weight", "protection")
"""And of those in which they learn labels."""


@dataclass(frozen=True)
class LabelSharing:
    """``consensus`` makes an algorithm's consensus from the run config and the number of classes.

    ``settings`` are the keys of the run config that the algorithm uses and others do not; all others are refused. By
    default they are those of FedCT. ``noise`` names the
    kind of the coordinator's noise, if it adds any: then ``consensus`` takes how to decide on counts beside.
    ``kind`` is what silos answer where there are classes.
    ``in_turn``: silos learn others' probabilities first and then their own records, instead of both at once.
    """

    title: str
    consensus: Callable[..., Consensus]
    settings: Uses = field(default_factory=lambda: CO_TRAINING)
    noise: Callable[[RunConfig], str] = lambda config: ""
    kind: Kind = HARD
    in_turn: bool = False

    @property
    def leaves(self) -> str:
        """What leaves a silo where there are classes, in plain words."""
        return self.kind.shared

    def check(self, config: RunConfig, dataset: FederatedDataset | None) -> None:
        """Any learner can label examples; raise ConfigError for one that cannot be made, or cannot be protected.

        And for one that cannot share probabilities, where those are wanted.

        And for silos with too few records for their teachers. The smallest silo stands for all: what a protection asks
        of records is that there are enough.
        """
        if config.initial_model:
            raise ConfigError(
                f"initial-model has no effect on algorithm {config.algorithm!r}, in which silos share no weights: "
                "leave it out, or use one in which they do, such as 'fedprox'"
            )
        learners = _learners(config, dataset)
        if self.kind.own_targets:
            _check_probabilities(config, learners, in_turn=self.in_turn)
        if noise := self.noise(config):
            check_extra("privacy", f"algorithm {config.algorithm!r} with noise")
            _check_delta(noise, config.delta)
        if not self.kind.own_model:
            _check_students(config, dataset)
            return
        if dataset:
            privacy = config.privacy_settings(config.asked_about(len(dataset.public)))
            smallest = min(dataset.silos, key=lambda silo: silo.private.size)
            for position in range(len(config.learner)):
                learner = config.learner_settings(position, len(dataset.silos))
                if privacy.enabled:
                    labeler_for(privacy, learner, smallest.name, dataset.schema, dataset.public, smallest.private.size)

    def model_path(self, folder: RunFolder, silo: SiloName, suffix: str) -> Path:
        """Every silo ends with a model of its own."""
        return folder.silo_model(silo, suffix)

    def run(self, study: Study, grid: Grid) -> dict[str, Any]:
        """Co-train, write the final labels or values, and return what ``result.json`` tells. Raises RunError."""
        config, terms, checkpoint = study.config, study.terms, study.checkpoint
        # Whoever refits gives the same labels for the same targets. Whoever trains on may yet change them, and needs
        # its model to go on. What real silos do is theirs to know: there stop-at-fixed-point is taken at its word.
        trained_on = any(isinstance(learner, Resumable) for learner in _learners(config, study.dataset))
        goes_on = checkpoint is not None and checkpoint.round < config.rounds
        if goes_on and trained_on and self.kind.own_model and not config.save_models:
            raise RunError(
                "the networks of this run were not kept (save-models = false), so it cannot go on with them: start a "
                "new run"
            )
        consensus, spent = self._consensus(study)
        strategy = CoTraining(
            terms,
            consensus,
            study.roster,
            min_silos=config.min_silos,
            query_size=config.asked_about(terms.num_public),
            votes=config.votes,
            learning=Learning(0.0 if self.in_turn else config.consensus_weight, config.warm_up_rounds),
            stop_at_fixed_point=config.stop_at_fixed_point and not trained_on,
            seed=config.seed,
            folder=study.folder,
            checkpoint=checkpoint,
        )
        result = strategy.start(
            grid,
            targets_to_arrays(checkpoint.targets if checkpoint else strategy.kind.empty_table(terms.num_public)),
            num_rounds=config.rounds,
            timeout=config.round_deadline,
        )
        targets = arrays_to_targets(result.arrays)
        if not strategy.kind.labels:
            study.folder.save_values(targets, terms.quantity)
            return {"fixed_point": strategy.fixed_point}
        if config.rounds == 1 and (targets == ABSTAIN).all():
            raise RunError(
                f"no label was agreed upon for any of {config.asked_about(terms.num_public)} public examples: "
                "train better teachers with more records each, or lower partitions or the quorum"
            )
        study.folder.save_labels(targets, terms.classes)
        promise = promised_by_noise(spent) if spent else promised(config, self.kind)
        return {
            "fixed_point": strategy.fixed_point,
            **({"privacy": spent.to_result()} if spent else {}),
            **add_global_model(study, targets, self.title, self.kind, self.model_path, promise),
        }

    def _consensus(self, study: Study) -> tuple[Consensus, Spending | None]:
        """The algorithm's, with the coordinator's noise if it adds any, and what that costs. Raises ConfigError."""
        config, num_classes = study.config, study.terms.num_classes
        noise = self.noise(config)
        if not noise:
            students = None if self.kind.own_model else _at_silos(config, study.dataset)
            return self.consensus(config, num_classes), students
        # Need the extra privacy, which an algorithm without noise does not.
        from fedct_flwr.privacy.tally_noise import noise_for, noisy, spent_by, tally_mechanism

        for warning in warnings(config, len(study.roster.silos)):
            logger.warning("%s", warning)
        queries = config.asked_about(study.terms.num_public)
        mechanism = tally_mechanism(config, noise, max(1, config.votes), queries, len(study.roster.silos))
        spent = spent_by(mechanism, queries, config.delta)
        _log_cost("Labels protect each silo as a whole, not from the coordinator", spent)
        decide = noisy(mechanism, noise_for(real=study.dataset is None))
        return self.consensus(config, num_classes, decide), spent


def warnings(config: RunConfig, num_silos: int) -> list[str]:
    """What is allowed and hardly meant of noise that protects silos, a sentence each."""
    if not (config.coordinator_adds_noise or config.algorithm == "dp-fedavg"):
        return []
    weakness = weak_delta(config.delta, num_silos, PrivacyUnit.SILO)
    found = [weakness] if weakness else []
    if config.privacy_level == "L1":
        # Needs the extra privacy, which an algorithm without noise does not.
        from fedct_flwr.privacy.fedkt import dear_partitions

        dear = dear_partitions(config.privacy_level, config.votes, config.gamma)
        found += [dear] if dear else []
    return found


def _at_silos(config: RunConfig, dataset: FederatedDataset | None) -> Spending | None:
    """What FedKT-L2 costs each record of a simulated silo; real silos keep their own books."""
    if dataset is None or config.privacy_level != "L2":
        return None
    from fedct_flwr.labelers.students import teachers_noise
    from fedct_flwr.privacy.tally_noise import spent_by

    num_public = len(dataset.public)
    asked = config.asked_about(num_public)
    settings = config.transfer_settings(min(silo.private.size for silo in dataset.silos))
    mechanism = teachers_noise(settings, config.privacy_settings(asked), num_public, config.votes)
    spent = spent_by(mechanism, settings.lessons_for(asked, num_public), config.delta, partitions=config.votes)
    _log_cost("Votes protect each record of a silo", spent)
    return spent


def _log_cost(what: str, spent: Spending) -> None:
    told = spent.to_result()
    theirs = told.get("epsilon_moments")
    logger.info(
        "%s: epsilon %.4g at delta %g (%s; %s noise of scale %.4g on %s examples)%s",
        what, told["epsilon"], told["delta"], told["accountant"], told["mechanism"], told["scale"], told["queries"],
        f"; {theirs:.4g} by FedKT's own accountant" if theirs else "",
    )  # fmt: skip


def _check_delta(kind: str, delta: float) -> None:
    """Raise ConfigError for noise on votes that promises nothing."""
    if wrong := wrong_delta("mechanism", kind, ON_COUNTS, delta):
        raise ConfigError(wrong)


def _check_probabilities(config: RunConfig, learners: Sequence[Learner], *, in_turn: bool) -> None:
    """Raise ConfigError for learners that cannot share probabilities, or a protection that does not cover them."""
    if config.protection != "none":
        raise ConfigError(
            f"protection = {config.protection!r} covers labels and not probabilities, which algorithm "
            f"{config.algorithm!r} shares: set it to 'none', or choose an algorithm that shares labels, such as 'fedct'"
        )
    if in_turn and config.corruption == "collusion":
        raise ConfigError(
            f"colluders learn nothing, and algorithm {config.algorithm!r} needs networks: choose another corruption, "
            "such as 'label-shift'"
        )
    for learner in learners:
        # First, as it wants more: whoever were told of all that know probabilities would next be refused a tree.
        if in_turn:
            check_in_turn(learner)
        check_soft(learner)


def _check_students(config: RunConfig, dataset: FederatedDataset | None) -> None:
    """Raise ConfigError for students that cannot be taught, or whose votes cannot be sent."""
    if config.protection != "none":
        raise ConfigError(
            f"algorithm {config.algorithm!r} protects records by privacy-level = 'L2', and not by protection = "
            f"{config.protection!r}: leave that out"
        )
    if dataset is None:
        return
    if not can_count(len(dataset.schema.classes), config.votes):
        raise ConfigError(f"{config.votes} votes among {len(dataset.schema.classes)} classes: lower partitions")
    from fedct_flwr.labelers.students import transfer_for
    from fedct_flwr.labelers.transfer import check_records

    fewest = min(dataset.silos, key=lambda silo: silo.private.size)
    transfer = config.transfer_settings(fewest.private.size)
    if config.privacy_level == "L2":
        _check_delta(transfer.noise, config.delta)
    try:
        check_records(fewest.private.size, config.votes, max(1, transfer.teachers))
    except ConfigError as error:
        raise ConfigError(f"silo {fewest.name!r}: {error}") from None
    privacy = config.privacy_settings(config.asked_about(len(dataset.public)))
    learner = config.learner_settings(0, len(dataset.silos))
    made = transfer_for(
        transfer, privacy, learner, fewest.name, dataset.schema, dataset.public, fewest.private.X, config.votes
    )
    if config.gamma and privacy.enabled:
        from fedct_flwr.privacy.calibration import epsilon_in_time

        spent = epsilon_in_time(made.event(privacy.planned_queries(len(dataset.public))), config.delta).upper
        if spent > config.epsilon:
            raise ConfigError(
                f"gamma = {config.gamma:g} costs epsilon {spent:.4g} at delta {config.delta:g}, and epsilon is "
                f"{config.epsilon:g}: raise epsilon, or set gamma to 0 for noise that keeps it"
            )


def _learners(config: RunConfig, dataset: FederatedDataset | None) -> list[Learner]:
    """One of each that the run config names; none for real silos, which have their own."""
    return named_learners(config, dataset) if dataset else []
