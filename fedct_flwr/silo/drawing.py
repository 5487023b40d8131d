"""A silo's part in a drawn public set: counts of its records' values with noise, charged to its ledger before."""

import hashlib

import numpy as np
from dp_accounting import GaussianDpEvent
from numpy.typing import NDArray

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.groups import check_protected, first_of
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.drawing.marginals import Plan
from fedct_flwr.privacy.budget import Budget, unit_of
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.noise_shares import least_multiplier
from fedct_flwr.privacy.sheet import Together
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.release import DATA_SET, Purse, ledger_refusals
from fedct_flwr.silo.site import Site
from fedct_flwr.text.log import logger
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.content import Histograms
from fedct_flwr.wire.refusal import Refusal, Refused


def plan_of(study: StudyFolder) -> Plan:
    """What silos of a study count, as ``[draw]`` and its data dictionary say. Raises ConfigError."""
    agreed, sums = study.config.draw, study.config.sums
    if agreed is None:
        raise ConfigError("the study has no [draw] in study.toml: ask the coordinator for it")
    dictionary = Dictionary.read({"columns": study.config.columns}, "[columns] in study.toml")
    return Plan.of(dictionary, study.schema, agreed, sums.min_summands - sums.may_collude)


def drawn_in(study: StudyFolder) -> Together:
    """How real silos count together in a study, for people. Raises ConfigError."""
    noise, sums = plan_of(study).noise, study.config.sums
    known = sums.min_summands, sums.may_collude
    return Together(1, noise.numbers, noise.honest, noise.multiplier, *known, draws=True)


def noisy_counts(site: Site, study: StudyFolder, asked: Histograms, purse: Purse, payload: bytes) -> NDArray[np.uint64]:
    """What the silo adds to a sum of counts, ``(numbers,)``: charged and drawn once for a ``payload``.

    A patient counts by one record, the first.

    Formal guarantees:
        Those of ``marginals.Plan.noise``, with the noise of a secure source, for all that the silo is asked to count
        within the budget of its ledger.

    Raises Refused (NOT_APPROVED, MALFORMED, PRIVACY_BUDGET, LEDGER), ConfigError or DataError.
    """
    if asked.study != study.digest:
        raise Refused(Refusal.NOT_APPROVED)
    check_protected(site.groups, site.silo)
    plan = plan_of(study)
    if (noise := plan.noise).numbers != asked.numbers:
        raise Refused(Refusal.MALFORMED)
    question = hashlib.sha256(b"fedct histograms 1" + payload).digest()

    def draw() -> bytes:
        first = first_of(site.groups)
        cells, outside = plan.form.place(site.private.X[first])
        if outside:
            logger.warning("Silo %s has %s", site.silo, outside)
        counts = plan.counts(cells, site.private.y[first]) + noise.share(purse.noise(question))
        return counts.astype("<i8").tobytes()

    with ledger_refusals(), purse.ledger as ledger:
        drawn = ledger.answer(site.terms.study, DATA_SET, purse.budget, noise.event(), question, draw)
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64)


def drawn_set(study: str) -> str:
    """Under which a simulation's ledgers have the drawn set, next to the labels of the study."""
    return f"{study}: drawn set"


def charge_simulated(config: RunConfig, dataset: FederatedDataset, folder: RunFolder) -> None:
    """Charge each simulated silo's ledger for the set that was drawn before the run, as one Gaussian.

    Raises LedgerError.
    """
    event = GaussianDpEvent(least_multiplier(config.draw_epsilon, config.draw_delta))
    for silo in dataset.silos:
        budget = Budget(config.draw_epsilon, config.draw_delta, unit_of(grouped=silo.groups is not None))
        with Ledger(folder.silo_privacy(silo.name)) as ledger:
            ledger.charge(drawn_set(config.study), DATA_SET, budget, event)
