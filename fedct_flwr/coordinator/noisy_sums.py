"""Secure sums with noise, and scores of all silos together by such a sum.

A silo adds once to each sum, whatever becomes of it: the same noise in two sums would protect less. So a sum that
cannot be opened is lost, and silos have paid for it.

For scores, each silo trains a model on the public labels alone, and counts its test records by true and predicted
class. They are for studies in which silos promise something.
"""

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from flwr.serverapp import Grid
from numpy import uint64
from numpy.typing import NDArray

from fedct_flwr import secure_sum
from fedct_flwr.coordinator.questions import Questions, Valid, read_answer, rows_of
from fedct_flwr.coordinator.summing import NOT_IN_SUM, Lost, Sums, sum_terms
from fedct_flwr.drawing.counts import GRID, SURE, CountPlan, noisy_number
from fedct_flwr.files import write_json
from fedct_flwr.runs.records import IN_WRONG_SUM
from fedct_flwr.types import RunError
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.content import Histograms, Instruction, Query
from fedct_flwr.wire.messages import to_record
from fedct_flwr.wire.sums import SCORES, RecordSum

if TYPE_CHECKING:
    from fedct_flwr.config.study import StudyScores
    from fedct_flwr.coordinator.study import Study
    from fedct_flwr.datasets.study_folder import StudyFolder


class NoisySums:
    """Secure sums with noise of one run; each is one of its ``rounds``, or none."""

    def __init__(self, study: "Study", grid: Grid, kind: RecordSum, *, rounds: bool = True) -> None:
        self._study, self._grid, self._kind, self._rounds = study, grid, kind, rounds
        self._questions = Questions(study.roster, study.config.min_silos)
        self._terms = sum_terms(study)
        self._sums = Sums(self._terms, study.roster)

    def wait(self) -> None:
        """Until the silos are there, or the roster's deadline has passed."""
        self._study.roster.wait(self._grid)

    def opened(
        self, instruction: Instruction, wrong: Callable[[NDArray[uint64], int], str]
    ) -> tuple[NDArray[uint64], int]:
        """The sum of what silos add, and their number. ``wrong`` says what is wrong with both; empty: nothing.

        Raises RunError where too few silos are ready: none has added yet, so it can be asked for again. Raises Lost.
        """
        valid, absent, asked = self.ask(instruction)
        if len(valid) < self._terms.min_summands:
            raise RunError(
                f"step {instruction.round} has {len(valid)} silos ready and min-summands is "
                f"{self._terms.min_summands}: "
                + "; ".join(f"{name}: {reason}" for name, reason in absent.items())
                + "; see to them, then resume the run"
            )
        shape = secure_sum.shape_of_records(self._kind, instruction, hashlib.sha256(asked).digest())
        deadline = self._study.config.round_deadline
        try:
            total, added = self._sums.sum(self._grid, shape, valid, instruction.round, deadline)
        except Lost:
            self.note(instruction, len(asked), {}, absent | dict.fromkeys(valid, NOT_IN_SUM))
            raise
        if why := wrong(total, len(added)):
            self.note(instruction, len(asked), {}, absent | dict.fromkeys(valid, IN_WRONG_SUM))
            raise Lost(f"step {instruction.round} has a secure sum {why}")
        absent |= {silo: NOT_IN_SUM for silo in valid if silo not in added}
        self.note(instruction, len(asked), added, absent)
        return total, len(added)

    def ask(self, instruction: Instruction) -> tuple[Valid, dict[str, str], bytes]:
        """The silos' answers, why others have none, and what they were asked."""
        study, deadline = self._study, self._study.config.round_deadline
        payload = encode_instruction(instruction, study.terms)
        self._questions.ask(self._grid, lambda silo: to_record(payload), instruction.round, deadline)
        replies = self._questions.receive(self._grid, deadline)
        read = partial(read_answer, terms=study.terms, instruction=instruction)
        return *self._questions.sort(instruction.round, replies, read), payload

    def note(
        self,
        instruction: Instruction,
        asked_bytes: int,
        valid: Valid,
        absent: Mapping[str, str],
        facts: Mapping[str, Any] = {},
    ) -> None:
        """Write the round down."""
        if not self._rounds:
            return
        self._study.folder.append_round(
            {
                "round": instruction.round,
                "seconds": round(time.time() - self._questions.asked_at, 3),
                "queried": self._study.terms.num_public,
                **facts,
                "instruction_bytes": asked_bytes,
                "bytes_sent": sum(answer.size for answer, _ in valid.values()),
                "silos": rows_of(valid),
                "absent": dict(absent),
                "fixed_point": False,
            }
        )


_FILE: Final = "scores_of_all.json"
"""The scores, in the run's folder."""


def noisy_scores(study: "Study", grid: Grid, agreed: "StudyScores") -> dict[str, Any]:
    """The scores of a run of real silos that has ended, by ``[scores]`` of their study, for ``result.json``.

    A sum that is not opened fails no run: the reason stands in its place.
    """
    folder, classes = cast("StudyFolder", study.subject.folder), study.terms.num_classes
    plan = CountPlan.of(agreed, folder.config.sums, classes**2)
    asked, number = Histograms(folder.digest, plan.numbers, scores=True), len(study.folder.rounds()) + 1
    kept = study.folder.path / _FILE
    # A run that is resumed without another round has paid for its scores.
    if kept.exists() and (known := study.folder.read_json(_FILE))["after_round"] == number - 1:
        return {"scores": known}
    labels, sums = study.folder.load_checkpoint().targets, NoisySums(study, grid, SCORES, rounds=False)
    question = Instruction(number, Query(0, len(labels)), labels, histograms=asked)
    try:
        total, silos = sums.opened(question, lambda total, silos: plan.wrong(total.view(np.int64), silos))
    except RunError as why:
        return {"scores": {"missing": str(why)}}
    facts = {"epsilon": agreed.epsilon, "delta": agreed.delta, "silos": silos, "after_round": number - 1}
    counts = (total.view(np.int64) / GRID).reshape(classes, classes)
    facts |= of_counts(counts, plan.noise.spread(silos) / GRID)
    write_json(kept, facts)
    return {"scores": facts}


def of_counts(counts: NDArray[np.float64], noise: float) -> dict[str, Any]:
    """Accuracy and balanced accuracy from counts ``(classes, classes)`` by true and predicted class.

    ``noise`` is its standard deviation in one count. Intervals of 95% have the variance of the test records and, by the
    delta method, that of noise.
    """
    classes = len(counts)
    of_class = np.maximum(counts.sum(axis=1), 1.0)
    recall = np.clip(counts.diagonal() / of_class, 0, 1)
    by_noise = noise**2 * ((1 - recall) ** 2 + (classes - 1) * recall**2) / of_class**2
    balanced = float(recall.mean()), math.sqrt(float((recall * (1 - recall) / of_class + by_noise).sum())) / classes
    records = max(float(counts.sum()), 1.0)
    p = min(max(float(counts.trace()) / records, 0.0), 1.0)
    spread = noise**2 * classes * ((1 - p) ** 2 + (classes - 1) * p**2) / records**2
    accuracy = p, math.sqrt(p * (1 - p) / records + spread)
    return {
        "test_records": noisy_number(records, noise * classes),
        "accuracy": _interval(*accuracy),
        "balanced_accuracy": _interval(*balanced),
    }


def _interval(value: float, error: float) -> dict[str, float]:
    low, high = max(0.0, value - SURE * error), min(1.0, value + SURE * error)
    return {"value": round(value, 3), "low": round(low, 3), "high": round(high, 3)}
