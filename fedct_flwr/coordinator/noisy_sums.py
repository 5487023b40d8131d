"""Questions of which silos add the answers, with noise for records: asked, opened as one sum, and written down.

A silo adds once to each sum, whatever becomes of it: the same noise in two sums would protect less. So a sum that
cannot be opened is lost, and silos have paid for it.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flwr.serverapp import Grid
from numpy import uint64
from numpy.typing import NDArray

from fedct_flwr.coordinator.questions import Answer, Questions, read_answer
from fedct_flwr.coordinator.study import Study
from fedct_flwr.coordinator.summing import NOT_IN_SUM, Sums, sum_terms
from fedct_flwr.flower.grid import prompt
from fedct_flwr.kinds.joint import NoisySum
from fedct_flwr.runs.records import IN_WRONG_SUM, RoundRecord, SiloRecord
from fedct_flwr.types import RunError, SiloName
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.content import Instruction
from fedct_flwr.wire.messages import to_record

Valid = dict[SiloName, tuple[Answer, float]]
"""Answers with the seconds that they took."""


class Lost(RunError):
    """A sum was not opened, and silos have paid for it."""


class NoisySums:
    """Those of one run."""

    def __init__(self, study: Study, grid: Grid, kind: NoisySum) -> None:
        self._study, self._grid, self._kind = study, prompt(grid), kind
        self._questions = Questions(study.roster, study.config.min_silos)
        self._terms = sum_terms(study)
        self._sums = Sums(self._terms, study.roster)

    def wait(self) -> None:
        """Until the silos are there, or the roster's deadline has passed."""
        self._study.roster.wait(self._grid)

    def opened(self, instruction: Instruction, wrong: Callable[[NDArray[uint64], int], str]) -> NDArray[uint64]:
        """The sum of what silos add. ``wrong`` says what is wrong with one of a number of silos; empty: nothing.

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
        shape = self._kind.shape(instruction, hashlib.sha256(asked).digest())
        deadline = self._study.config.round_deadline
        try:
            found, sent = self._sums.sum(self._grid, shape, valid.keys(), instruction.round, deadline)
        except RunError as error:
            self.note(instruction, len(asked), {}, absent | dict.fromkeys(valid, NOT_IN_SUM))
            raise Lost(str(error)) from None
        if why := wrong(found.total, len(found.summands)):
            self.note(instruction, len(asked), {}, absent | dict.fromkeys(valid, IN_WRONG_SUM))
            raise Lost(f"step {instruction.round} has a secure sum {why}")
        absent |= {silo: NOT_IN_SUM for silo in valid if silo not in found.summands}
        added = {silo: valid[silo] for silo in found.summands}
        self.note(instruction, len(asked), added, absent, sent)
        return found.total

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
        sent: Mapping[SiloName, int] = {},
        facts: Mapping[str, Any] = {},
    ) -> None:
        """Write the round down; ``sent``: bytes of each silo in the sum."""
        silos = {
            silo: SiloRecord(answer.size + sent.get(silo, 0), round(seconds, 3), {}, answer.known_scores)
            for silo, (answer, seconds) in valid.items()
        }
        self._study.folder.append_round(
            RoundRecord(
                round=instruction.round,
                seconds=round(time.time() - self._questions.asked_at, 3),
                queried=self._study.terms.num_public,
                facts=facts,
                instruction_bytes=asked_bytes,
                bytes_sent=sum(record.bytes_sent for record in silos.values()),
                silos=silos,
                absent=dict(absent),
            )
        )
