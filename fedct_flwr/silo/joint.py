"""A silo's part in the joint labeler's training: noisy gradients, charged to its ledger before they are drawn."""

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.groups import check_protected
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.labelers.dp_linear import sharing
from fedct_flwr.labelers.joint_linear import JointLinear, Plan, plan_for
from fedct_flwr.privacy.sheet import Together
from fedct_flwr.silo.release import DATA_SET, Purse, ledger_refusals
from fedct_flwr.silo.site import Site, joint_of
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.content import Joint
from fedct_flwr.wire.refusal import Refusal, Refused


def plan_of(joint: Joint, num_classes: int) -> Plan:
    """The plan that coordinator and silos both make of a step. Raises ConfigError for impossible numbers."""
    return plan_for(
        joint.records,
        num_classes,
        epsilon=joint.epsilon,
        delta=joint.delta,
        honest=joint.honest,
        steps=joint.steps,
        additive_columns=joint.columns,
    )


def joint_labeler(joint: Joint, public: PublicSet, schema: Schema) -> JointLinear:
    """The labeler of a step's plan, made once in a process. Raises ConfigError or DataError."""
    return _made(plan_of(joint, len(schema.classes)), public, schema, joint.seed)


def together_in(study: StudyFolder, *, draws: bool = False) -> Together:
    """How real silos train together in a study, for people, or count. Raises ConfigError or DataError."""
    if draws:
        from fedct_flwr.silo.drawing import drawn_in

        return drawn_in(study)
    joint, sums = joint_of(study), study.sums
    if joint is None or sums is None:
        raise ConfigError("the study has no [joint] in study.toml: ask the coordinator for it")
    labeler = joint_labeler(joint, study.public, study.schema)
    numbers, multiplier = labeler.noise.numbers, labeler.noise.multiplier
    return Together(joint.steps, numbers, joint.honest, multiplier, sums.min_summands, sums.may_collude)


# Silos of one process share it, and all steps do.
@lru_cache(maxsize=2)
def _made(plan: Plan, public: PublicSet, schema: Schema, seed: int) -> JointLinear:
    return JointLinear(plan, public.X, schema, seed=seed)


def noisy_gradient(site: Site, joint: Joint, purse: Purse, payload: bytes) -> NDArray[np.uint64]:
    """What the silo adds to the sum of a step, ``(features * classes,)``: charged and drawn once for a ``payload``.

    Raises Refused (PRIVACY_BUDGET, LEDGER, MALFORMED), ConfigError or DataError.
    """
    check_protected(site.groups, site.silo)
    labeler = joint_labeler(joint, site.public, site.schema)
    weights = labeler.start.weights if joint.weights is None else joint.weights
    if weights.shape != labeler.start.weights.shape:
        raise Refused(Refusal.MALFORMED)
    question = hashlib.sha256(b"fedct joint step 1" + payload).digest()

    def draw() -> bytes:
        vectors = labeler.vectors(site.private.X)
        shared = sharing(site.groups)
        return labeler.summand(vectors, site.private.y, weights, purse.noise(question), shared).astype("<u8").tobytes()

    with ledger_refusals(), purse.ledger as ledger:
        event = labeler.noise.event()
        drawn = ledger.answer(site.terms.study, DATA_SET, purse.budget, event, question, draw)
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64)
