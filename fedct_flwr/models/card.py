"""The card of a global model: where it comes from, what is promised, what it is for. JSON, and Markdown made of it."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.privacy.budget import PrivacyUnit, Spending, unit_of
from fedct_flwr.privacy.sheet import UNITS
from fedct_flwr.runs.run_folder import versions
from fedct_flwr.text.kinds import words_of
from fedct_flwr.text.markdown import template

if TYPE_CHECKING:
    from fedct_flwr.types import SiloName
    from fedct_flwr.wire.kinds import Kind

STUDENT: Final = "student"
"""Under which name the global model's own scores are."""
_OF_SILOS: Final = (
    "Each silo decides for itself what it promises of its records; the coordinator does not know it. Ask the silos for "
    "their privacy sheets ('fedct privacy-sheet')."
)
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
_IN_SHARES: Final = (
    "The labels keep this promise, and so does the model, which is made of them alone (post-processing). It compares "
    "the run with one in which all votes of one silo are replaced by any others; which silos took part counts as "
    "public, and is not hidden. It also holds against the coordinator, which opens the noisy sum of votes alone, if no "
    "more silos collude with it than may-collude says. The public set is not protected."
)
_SIMULATED: Final = " In a simulation the noise comes from the run's seed, and protects no one."
_LEFT_OUT: Final = (
    " This card leaves out all that was computed from the silos' votes or records without noise: scores of their "
    "models, and scores on their test records."
)
_NO_NAMES: Final = " It names no silo."
_USE: Final = (
    "Meant for records like those of the public set, described by the same columns in the same units, where the "
    "question is the study's. Try it on labeled records of your own before you rely on it.",
)
_LIMITS: Final = (
    "It has learned what the silos' models agreed on, not what is true: their shared mistakes are in it.",
    "It has not seen one private record; where the public set has few examples of a kind, it knows little of it.",
    "Its probabilities are ranks, not chances: they say how sure it is of the silos' label. 'fedct calibrate' makes "
    "chances of them, by labeled records of the place that uses it.",
    "It is not a medical device. It has not been checked for groups of people whom it may serve worse.",
    "Its file holds quantiles of the public set's numbers.",
    "Nearest neighbors and support vector machines contain public examples: share such a file only with those who may "
    "see the public set.",
)


def promised(config: RunConfig, kind: "Kind") -> dict[str, Any]:
    """Guarantee of a run's settings for the records behind the labels; the student is made of labels alone."""
    if config.data == STUDY:
        return {"protection": "the silos' own", "words": _OF_SILOS}
    if config.protection == "none":
        return {"protection": "none", "words": f"Nothing is promised: {words_of(kind).unprotected}."}
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
    rounds: Sequence[Mapping[str, Any]],
    privacy: Mapping[str, Any],
    file: str,
    content: bytes,
    scores: Mapping[str, Any],
    most: float | None = None,
) -> dict[str, Any]:
    """All facts, of ``labels`` public examples; ``most`` is the share of the most frequent class in the test set.

    The card goes wherever the model goes: where noise promises something of the labels, nothing is in it that was
    computed from votes or private records without that noise, and where a silo as a whole is protected, silos are not
    named.
    """
    silos: list[SiloName] = sorted({silo for record in rounds for silo in record["silos"]})
    protected, of_silos = "epsilon" in privacy, privacy.get("unit") == _SILO
    if protected:
        words = privacy["words"] + _LEFT_OUT + _NO_NAMES * of_silos + _SIMULATED * (config.data != STUDY)
        privacy = {**privacy, "words": words}
        scores = {name: score for name, score in scores.items() if config.data == STUDY}
        most = most if scores else None
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
            "rounds": len(rounds),
            **({} if of_silos else {"silos": silos}),
            **config.method.facts,
        },
        "privacy": dict(privacy),
        "learner": {
            **config.student_settings().model_dump(include={"name", "params", "preprocessing", "seed"}),
        },
        "scores": dict(scores),
        **({} if most is None else {"most-frequent-class": most}),
        "versions": versions(),
        "intended-use": list(_USE),
        "limits": list(_LIMITS),
    }


def as_markdown(facts: Mapping[str, Any]) -> str:
    """The card for people."""
    return template(__package__, "card.md").render(facts=facts)
