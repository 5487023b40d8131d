"""The card of a global model, as JSON: where it comes from, and what is promised of the labels behind it."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.privacy.budget import PrivacyUnit, Spending, unit_of
from fedct_flwr.privacy.sheet import UNITS
from fedct_flwr.runs.run_folder import versions

if TYPE_CHECKING:
    from fedct_flwr.wire.kinds import Kind

_OF_SILOS: Final = (
    "Each silo decides for itself what it promises of its records; the coordinator does not know it. Ask the silos for "
    "their privacy sheets ('fedct privacy-sheet')."
)
_OF_STUDENTS: Final = (
    "the labels are what students at the silos voted for, who learned from models of the silos' records without noise"
)
_OF_PROBABILITIES: Final = "the labels were made of the probabilities that the silos' own models give, without noise"
_OF_OWN_MODELS: Final = "the labels are those of the silos' own models, without noise"
_SILO: Final = "one silo as a whole, all its votes replaced by any others"
_KEPT: Final = (
    "The labels keep this promise in total over all rounds, and so does the model, which is made of them alone "
    "(post-processing). The public set is not protected."
)
_AT_COORDINATOR: Final = (
    "The labels keep this promise, and so does the model, which is made of them alone (post-processing). It compares "
    "the run with one in which all votes of one silo are replaced by any others; which silos took part counts as "
    "public, and is not hidden. The coordinator sees the votes themselves: nothing is promised against it. Several "
    "runs over the same silos add up, and the coordinator keeps no ledger of them. The public set is not protected."
)
_SIMULATED: Final = " In a simulation the noise comes from the run's seed, and protects no one."
_IN_SHARES: Final = (
    "The labels keep this promise, and so does the model, which is made of them alone (post-processing). It compares "
    "the run with one in which all votes of one silo are replaced by any others; which silos took part counts as "
    "public, and is not hidden. It also holds against the coordinator, which opens the noisy sum of votes alone, if no "
    "more silos collude with it than may-collude says. The public set is not protected."
)


def promised(config: RunConfig, kind: "Kind") -> dict[str, Any]:
    """Guarantee of a run's settings for the records behind the labels; the student is made of labels alone."""
    if config.data == STUDY:
        return {"protection": "the silos' own", "words": _OF_SILOS}
    if config.protection == "none":
        made = _OF_OWN_MODELS if kind.own_model else _OF_STUDENTS
        source = _OF_PROBABILITIES if kind.by_probabilities else made
        return {"protection": "none", "words": f"Nothing is promised: {source}."}
    return _kept(config.protection, config.epsilon, config.delta, UNITS[unit_of(grouped=config.grouped)])


def promised_together(config: RunConfig, epsilon: float, delta: float) -> dict[str, Any]:
    """Guarantee of the joint labeler: the noise of all silos, for these totals."""
    return _kept("joint labeler", epsilon, delta, UNITS[unit_of(grouped=config.grouped)])


def promised_by_noise(spent: Spending) -> dict[str, Any]:
    """Guarantee of noise on counts of votes. Raises ValueError where there was no such noise."""
    if spent.noise is None:
        raise ValueError("there is no noise on votes to tell of")
    how = f"{spent.noise.mechanism} noise {spent.added_by}", spent.epsilon, spent.delta
    if spent.unit is not PrivacyUnit.SILO:
        return _kept(*how, UNITS[spent.unit])
    return _kept(*how, _SILO, _IN_SHARES if spent.noise.honest else _AT_COORDINATOR)


def _kept(protection: str, epsilon: float, delta: float, unit: str, words: str = _KEPT) -> dict[str, Any]:
    return {"protection": protection, "epsilon": epsilon, "delta": delta, "unit": unit, "words": words}


def card_of(
    config: RunConfig,
    title: str,
    *,
    public_fingerprint: str,
    num_public: int,
    labels: int,
    rounds: int,
    privacy: Mapping[str, Any],
    file: str,
    content: bytes,
) -> dict[str, Any]:
    """The facts of a model that has learned from the labels of ``labels`` public examples.

    The card goes wherever the model goes. So it names no silo, and has no score of a model or a test record.
    """
    simulated = "epsilon" in privacy and config.data != STUDY
    return {
        "model": file,
        "sha256": hashlib.sha256(content).hexdigest(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "study": config.study,
        "public-set": {"fingerprint": public_fingerprint, "examples": num_public},
        "labels": {
            "used": labels,
            "without": num_public - labels,
            "algorithm": config.algorithm,
            "title": title,
            "rounds": rounds,
            **config.method.facts,
        },
        "privacy": {**privacy, "words": privacy["words"] + _SIMULATED * simulated},
        "learner": {
            **config.student_settings().model_dump(include={"name", "params", "preprocessing", "seed"}),
        },
        "versions": versions(),
    }
