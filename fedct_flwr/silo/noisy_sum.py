"""Summands with the silo's own noise: votes, gradients of the joint labeler, counts of columns' values.

Each is charged to its ledger before it is drawn, and drawn once for a question.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent
from numpy.typing import NDArray

from fedct_flwr import labelers, secure_sum
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.federated import FederatedDataset, first_of
from fedct_flwr.drawing.counts import GRID, CountPlan, DrawingPlan
from fedct_flwr.drawing.patients import PatientCount
from fedct_flwr.learners.build import learner_for
from fedct_flwr.privacy.budget import DATA_SET, WHOLE_SILO, Budget, unit_of
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.noise_shares import VoteShares, least_multiplier
from fedct_flwr.privacy.sheet import Together
from fedct_flwr.silo.release import Purse, ledger_refusals
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, Features, HardLabels, Refusal, Refused

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.datasets.study_folder import StudyFolder
    from fedct_flwr.learners import Learner
    from fedct_flwr.runs.run_folder import RunFolder
    from fedct_flwr.silo.site import Site
    from fedct_flwr.wire.content import Histograms, Instruction, Joint, Terms

_Counts = Callable[[], NDArray[np.int64]]
"""Counts the silo's records, in units of ``counts.GRID`` ``(numbers,)``."""


@dataclass(frozen=True)
class NoiseAdder:
    """Adds a silo's noise to sums, paid from a ``purse`` whose budget holds unless ``most`` limits a sum's cost.

    ``honest``: silos whose shares count, by the silo's own terms of sums and not by the coordinator's word.
    """

    purse: Purse
    honest: int
    most: Callable[[VoteShares], Budget] | None = None


def with_noise(
    vector: NDArray[np.uint64], instruction: "Instruction", terms: "Terms", adder: NoiseAdder, payload: bytes
) -> NDArray[np.uint64]:
    """Votes ``(examples * classes,)`` on a grid with the silo's share of the noise, modulo 2^32, for a sum.

    Charged and drawn once for a ``payload``. Raises Refused (PRIVACY_BUDGET, LEDGER), ConfigError.
    """
    shares = VoteShares(instruction.noise, instruction.query.size, terms.width, adder.honest)
    question = hashlib.sha256(b"fedct votes with noise 1" + payload).digest()
    # The fewer silos are counted on, the larger is a share: that of more of them is no answer to the same question.
    paid = hashlib.sha256(b"fedct share of noise 1" + adder.honest.to_bytes(2, "big") + question).digest()
    purse = replace(adder.purse, budget=adder.most(shares)) if adder.most else adder.purse

    def draw() -> NDArray[np.uint64]:
        """The sum counts steps of the noise's grid, modulo 2^32."""
        on_grid = vector.astype(np.int64) * shares.grid + shares.share(purse.noise(question)).ravel()
        return np.asarray(on_grid & (2**secure_sum.BITS - 1), dtype=np.uint64)

    return _paid(purse, terms, WHOLE_SILO, shares.event(), paid, draw)


def _paid(
    purse: Purse, terms: "Terms", data_set: str, event: DpEvent, question: bytes, draw: Callable[[], NDArray[Any]]
) -> NDArray[np.uint64]:
    """The numbers that are drawn for a ``question``: charged first, and drawn once. Raises Refused."""
    with ledger_refusals(), purse.ledger as ledger:
        drawn = ledger.answer(
            terms.study, data_set, purse.budget, event, question, lambda: draw().astype("<u8").tobytes()
        )
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64)


def together_in(study: "StudyFolder", kind: str = "joint") -> Together:
    """How real silos train together in a study, for people, or count, by the ``kind`` in policies.

    Raises ConfigError or DataError.
    """
    if kind != "joint":
        return _counted_in(study, kind)
    joint, sums = study.joint, study.sums
    if joint is None or sums is None:
        raise ConfigError("the study has no [joint] in study.toml: ask the coordinator for it")
    noise = labelers.joint_labeler(joint, study.public, study.schema).noise
    known = joint.epsilon, joint.delta, sums.min_summands, sums.may_collude, "", joint.records
    return Together(joint.steps, noise.numbers, joint.honest, noise.event().noise_multiplier, *known)


def noisy_gradient(site: "Site", joint: "Joint", purse: Purse, payload: bytes) -> NDArray[np.uint64]:
    """The silo's summand of a step, ``(features * classes,)``: charged and drawn once for a ``payload``.

    Raises Refused (PRIVACY_BUDGET, LEDGER, MALFORMED), ConfigError or DataError.
    """
    labeler = labelers.joint_labeler(joint, site.public, site.schema)
    weights = labeler.start.weights if joint.weights is None else joint.weights
    if weights.shape != labeler.start.weights.shape:
        raise Refused(Refusal.MALFORMED)
    question = hashlib.sha256(b"fedct joint step 1" + payload).digest()

    def draw() -> NDArray[np.uint64]:
        vectors = labeler.vectors(site.private.X)
        shared = labelers.sharing(site.groups)
        return labeler.summand(vectors, site.private.y, weights, purse.noise(question), shared)

    return _paid(purse, site.terms, DATA_SET, labeler.noise.event(), question, draw)


def plan_of(study: "StudyFolder") -> DrawingPlan:
    """Plan of the counts in a study, by ``[draw]`` and its data dictionary. Raises ConfigError."""
    agreed, sums = study.config.draw, study.config.sums
    if agreed is None:
        raise ConfigError("the study has no [draw] in study.toml: ask the coordinator for it")
    dictionary = Dictionary.read({"columns": study.config.columns}, "[columns] in study.toml")
    return DrawingPlan.of(dictionary, study.schema, agreed, sums.min_summands - sums.may_collude)


def count_plan(study: "StudyFolder", question: PatientCount | None = None) -> CountPlan:
    """Plan of a question of how many patients match, None: of any, by ``[count]``. Raises ConfigError."""
    if (agreed := study.config.count) is None:
        raise ConfigError(
            "the study has no [count] in study.toml: the coordinator adds it, and the silos approve the study again"
        )
    return CountPlan.of(agreed, study.config.sums, len(question.cells) if question else 1)


def _counted_in(study: "StudyFolder", kind: str) -> Together:
    plan, sums = plan_of(study) if kind == "draw" else count_plan(study), study.config.sums
    noise, records = plan.noise, plan.records if isinstance(plan, DrawingPlan) else 0
    known = plan.epsilon, plan.delta, sums.min_summands, sums.may_collude, kind, records
    return Together(1, noise.numbers, noise.honest, noise.event().noise_multiplier, *known)


def noisy_counts(
    site: "Site", study: "StudyFolder", instruction: "Instruction", purse: Purse, payload: bytes
) -> NDArray[np.uint64]:
    """The silo's summand of a sum of counts, ``(numbers,)``: charged and drawn once for a ``payload``.

    A patient counts by one record: the first, or the first that meets the condition.

    Formal guarantees:
        Those of ``counts.noise_of``, with the noise of a secure source, for all that the silo is asked to count within
        the budget of its ledger.

    Raises Refused (NOT_APPROVED, POLICY, MALFORMED, PRIVACY_BUDGET, LEDGER), ConfigError or DataError.
    """
    asked = instruction.histograms
    if asked is None:
        raise Refused(Refusal.MALFORMED)
    if asked.study != study.digest:
        raise Refused(Refusal.NOT_APPROVED)
    plan: DrawingPlan | CountPlan
    if asked.scores:
        plan, counts = _confusion(site, study, instruction.targets)
    else:
        plan, counts = _patients(site, study, asked) if asked.where else _values(site, study)
    if (noise := plan.noise).numbers != asked.numbers:
        raise Refused(Refusal.MALFORMED)
    question = hashlib.sha256(b"fedct histograms 1" + payload).digest()
    return _paid(
        purse, site.terms, DATA_SET, noise.event(), question, lambda: counts() + noise.share(purse.noise(question))
    )


def _values(site: "Site", study: "StudyFolder") -> tuple[DrawingPlan, _Counts]:
    plan = plan_of(study)

    def counts() -> NDArray[np.int64]:
        first = first_of(site.groups)
        cells, outside = plan.form.place(site.private.X[first])
        if outside:
            logger.warning("Silo %s has %s", site.silo, outside)
        return plan.counts(cells, site.private.y[first])

    return plan, counts


def _patients(site: "Site", study: "StudyFolder", asked: "Histograms") -> tuple[CountPlan, _Counts]:
    if study.config.count is None:
        raise Refused(Refusal.POLICY)
    try:
        question = PatientCount.of(asked.where, asked.by, study.schema, study.config.columns)
        plan = count_plan(study, question)
    except ConfigError as error:
        logger.warning("Silo %s refuses a question for a count: %s", site.silo, error)
        raise Refused(Refusal.MALFORMED) from None
    # One spelling, which can be shown to people.
    if question.where.text != asked.where:
        raise Refused(Refusal.MALFORMED)
    logger.info("Silo %s counts the patients with %s", site.silo, asked.where)
    return plan, lambda: question.counts(*site.private, site.groups) * GRID


def _confusion(site: "Site", study: "StudyFolder", targets: HardLabels) -> tuple[CountPlan, _Counts]:
    """Test records of each class by predicted class ``(classes * classes,)``, for one record of each patient.

    Formal guarantees:
        The model learns public examples and the targets alone, so a record that is trained with changes it by nothing
        but labels that have left. A personal model would change all counts with one record, and no noise here covers
        that. So a patient changes one count by one: by a test record.
    """
    if (agreed := study.config.scores) is None:
        raise Refused(Refusal.POLICY)
    classes = len(study.schema.classes)

    def counts() -> NDArray[np.int64]:
        known, first = targets != ABSTAIN, first_of(site.test_groups)
        try:
            learner = learner_for(site.settings, site.silo, site.schema, site.public, site.public.X)
            learner.fit(site.public.X[known], targets[known])
        except Exception:
            # Of public data alone, so that it tells of no record.
            logger.exception("Silo %s: no model learned the public labels; the coordinator is not told", site.silo)
            return np.zeros(classes**2, dtype=np.int64)
        predicted = _predicted(learner, site.own_test.X[first])
        cells = site.own_test.y[first].astype(np.intp) * classes + predicted
        return np.bincount(cells[predicted != ABSTAIN], minlength=classes**2) * GRID

    return CountPlan.of(agreed, study.config.sums, classes**2), counts


def _predicted(learner: "Learner", X: Features) -> HardLabels:
    """The class of each record, ``ABSTAIN`` where there is none: a record that stops the model stops no other."""
    try:
        return learner.predict(X)
    except Exception:
        if len(X) < 2:
            return np.full(len(X), ABSTAIN, dtype=LABEL_DTYPE)
        half = len(X) // 2
        return np.concatenate([_predicted(learner, X[:half]), _predicted(learner, X[half:])])


def drawn_set(study: str) -> str:
    """Name of the drawn set in a simulation's ledgers, next to the labels of the study."""
    return f"{study}: drawn set"


def charge_simulated(config: "RunConfig", dataset: FederatedDataset, folder: "RunFolder") -> None:
    """Charge each simulated silo's ledger for the set that was drawn before the run, as one Gaussian.

    Raises LedgerError.
    """
    event = GaussianDpEvent(least_multiplier(config.draw_epsilon, config.draw_delta))
    for silo in dataset.silos:
        budget = Budget(config.draw_epsilon, config.draw_delta, unit_of(grouped=silo.groups is not None))
        with Ledger(folder.silo_privacy(silo.name)) as ledger:
            ledger.charge(drawn_set(config.study), DATA_SET, budget, event)
