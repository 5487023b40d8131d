"""Who has gained and who has lost in a run, and the warnings that go with it: in words for people and programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from fedct_flwr.datasets import FederatedDataset
from fedct_flwr.files import write_atomically
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import SiloScores
from fedct_flwr.scoring.assessment import Predicted
from fedct_flwr.scoring.intervals import CHANCE, Verdict, verdict
from fedct_flwr.silo.personal import Judgment, facts_of
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import json_text
from fedct_flwr.types import DataError, Examples, SiloName

FILE: Final = "verdict.json"
"""Where a run folder has it."""
MARKS: Final[Mapping[str, str]] = {"gained": " ▲", "lost": " ▼", "": ""}
"""What stands after a silo's name."""
_RARER: Final = 0.5
"""A class that has less than this part of its share among the records has almost gone from the consensus."""
_AGREEMENT: Final = 0.9
_LOW: Final = 0.3
"""Balanced accuracy, from 0 for a guess to 1, below which agreement on it means little."""
_NEARLY_ALL: Final = 0.95
"""Share of one class among labels from which balanced accuracy tells of the threshold alone."""


def verdict_of(predicted: Mapping[str, Predicted], test: Examples) -> Verdict | None:
    """The model that a silo ended with against its model alone, where both have ``predicted`` the test records."""
    if not {"local", "federated"} <= predicted.keys() or not test.size:
        return None
    return verdict(predicted["local"].answers, predicted["federated"].answers, test.y)


def judgments(folder: RunFolder, silos: Sequence[SiloName]) -> dict[SiloName, Judgment]:
    """What simulated silos make of the consensus, of those that have said something that can be read."""
    found: dict[SiloName, Judgment] = {}
    for silo in silos:
        try:
            if (judgment := Judgment.read(folder.silo_judgment(silo))) is not None:
                found[silo] = judgment
        except DataError:
            continue
    return found


def document(rows: Sequence[SiloScores], folder: RunFolder, dataset: FederatedDataset | None) -> dict[str, Any]:
    """All that there is to say of a run, in words and for programs; also what the report reads."""
    found = judgments(folder, [row.silo for row in rows])
    return {
        **_by_word({row.silo: row.verdict for row in rows if row.verdict}),
        "after_first_round": after_first(found),
        "at_the_end": summary(rows),
        "warnings": [*warnings(rows, folder.rounds(), dataset), *against_sums(folder, found)],
        "judgments": {silo: facts_of(judgment) for silo, judgment in found.items()},
    }


def against_sums(folder: RunFolder, found: Mapping[SiloName, Judgment]) -> Iterator[str]:
    """What silos' own records say of labels that a silo which lies in secure sums can have made."""
    weighed = [judgment for judgment in found.values() if judgment.weight is not None]
    against = sum(judgment.foreign_only or judgment.weight != 1 for judgment in weighed)
    summed = folder.settings().get("secure") or "joint" in folder.read_json("result.json")
    if summed and against and 2 * against >= len(weighed):
        yield (
            f"own records of {against} of {count(len(weighed), 'silo')} speak against what secure sums taught: "
            "a silo that lies in sums is not seen, so ask the partners, or compare with a run without sums"
        )


def save(said: Mapping[str, Any], folder: RunFolder) -> None:
    """Write it to the run folder."""
    write_atomically(folder.path / FILE, json_text(said).encode())


def _by_word(found: Mapping[SiloName, Verdict]) -> dict[str, list[SiloName]]:
    return {word: [silo for silo, verdict in found.items() if verdict.word == word] for word in ("gained", "lost")}


def summary(rows: Sequence[SiloScores]) -> str:
    """How many silos have gained and lost, in a sentence; empty where nothing can be told."""
    known = {row.silo: row.verdict for row in rows if row.verdict}
    if not known:
        return ""
    words = _by_word(known)
    said = [f"{MARKS[word].strip()} {word}: {', '.join(names)}" for word, names in words.items() if names]
    if others := len(known) - sum(map(len, words.values())):
        said.append(f"no difference beyond chance for {count(others, 'silo')}")
    return f"{'; '.join(said)} (own test records against the silo alone, exact test at {CHANCE:.0%})"


def after_first(found: Mapping[SiloName, Judgment]) -> str:
    """The same after the first round that learned a consensus, as the silos saw it; empty where nothing is known."""
    first: dict[SiloName, Verdict] = {}
    number = ""
    for silo, judgment in found.items():
        if judgment.tests:
            number = min(judgment.tests, key=int)
            first[silo] = judgment.tests[number]
    if not first:
        return ""
    said = [f"{word}: {', '.join(names)}" for word, names in _by_word(first).items() if names]
    return f"after round {number}, {'; '.join(said) or 'no silo had gained or lost beyond chance'}"


def distrusts(said: Mapping[str, Any]) -> Iterator[str]:
    """A sentence on each silo that does not trust the consensus in full, of what ``document`` says."""
    for silo, facts in said["judgments"].items():
        if facts.get("foreign_only") or (facts["weight"] is not None and facts["weight"] < 1):
            yield f"{silo}: {facts['why']}"


def warnings(
    rows: Sequence[SiloScores], rounds: Sequence[Mapping[str, Any]], dataset: FederatedDataset | None
) -> Iterator[str]:
    """What should worry who reads the scores, a sentence each. ``rounds`` are the round log's lines.

    Shares of classes are held against those of ``dataset``, or against those of the first consensus.
    """
    for row in rows:
        if not row.verdict or row.verdict.word != "lost":
            continue
        yield (
            f"{row.silo} would be better off alone: {-row.verdict.gain:.3f} less balanced accuracy on its own test "
            f"records (p = {row.verdict.p:.2g})"
        )
    compared = [row.pooled for row in rows if {"federated", "local"} <= row.pooled.keys()]
    if len(rounds) == 1 and compared and all(pooled["federated"] == pooled["local"] for pooled in compared):
        yield (
            "the run had one round, after which no silo trains again: each score is that of the silo alone; run two "
            "rounds or more"
        )
    last = rounds[-1] if rounds else {}
    counts = last.get("class_counts") or {}
    if counts and not any(counts.values()):
        yield (
            "the last consensus labels no public example, so silos learn from their own records alone: silos disagree "
            "too much for the algorithm, or have too few records"
        )
    yield from _near_majority(counts, _expected(rounds, dataset))
    pooled = [row.pooled["federated"] for row in rows if np.isfinite(row.pooled.get("federated", np.nan))]
    if pooled and len(counts) > 1 and last.get("agreement", 0) >= _AGREEMENT:
        guess = 1 / len(counts)
        mean = float(np.mean(pooled))
        if (mean - guess) / (1 - guess) < _LOW and max(counts.values()) >= _NEARLY_ALL * sum(counts.values()):
            # Of a rare class this says where the threshold is, and not how well models rank records.
            yield (
                f"silos agree on {last['agreement']:.0%} of the labels, but their models have a mean balanced "
                f"accuracy of {mean:.3f} on the pooled test set: nearly all labels are "
                f"{max(counts, key=lambda name: counts[name])!r}; set class-weight to 'balanced', and compare "
                "models by AUC"
            )


def _expected(rounds: Sequence[Mapping[str, Any]], dataset: FederatedDataset | None) -> dict[str, float]:
    """Shares of the classes as they should be, in 0..1."""
    counts: Mapping[str, int] = (rounds[0].get("class_counts") or {}) if rounds else {}
    if dataset is not None:
        counts = dataset.schema.outcome.counts(np.concatenate([silo.private.y for silo in dataset.silos])) or counts
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {}


def _near_majority(counts: Mapping[str, int], expected: Mapping[str, float]) -> Iterator[str]:
    total = sum(counts.values())
    if not total or not expected:
        return
    largest = max(counts, key=lambda name: counts[name])
    rare = 1 - counts[largest] / total
    should = 1 - expected.get(largest, 0.0)
    # A sample of this size has fewer than this by chance alone.
    chance = 2 * float(np.sqrt(should * (1 - should) / total))
    if rare < _RARER * should and rare < should - chance:
        yield (
            f"the consensus is near its most frequent class: {1 - rare:.0%} of its labels are {largest!r}, but "
            f"{1 - should:.0%} of what silos have seen; weigh classes (class-weight = 'balanced'), or choose another "
            "learner"
        )
