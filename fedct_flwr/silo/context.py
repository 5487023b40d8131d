"""Context of one message at a silo: the question, files that never leave the silo, and the answers that it permits."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from fedct_flwr import labelers, silo
from fedct_flwr.silo.site import FolderState, LocalState, Site
from fedct_flwr.wire.codec import decode_instruction
from fedct_flwr.wire.content import Instruction
from fedct_flwr.wire.kinds import Kind, kind_of

if TYPE_CHECKING:
    from fedct_flwr.datasets.study_folder import StudyFolder
    from fedct_flwr.runs.run_folder import RunFolder
    from fedct_flwr.silo.noisy_sum import NoiseAdder
    from fedct_flwr.silo.release import Answering, Purse, Release


@dataclass(frozen=True, eq=False)
class SiloContext:
    """``model`` is where the silo's model is kept, if it can be; a resumed run goes on from it (``resumes``).

    ``model_digest`` (32 bytes) stands for the settings that decide what the model is. ``before`` is where a real silo
    keeps the model of before the study, ``judgment`` what a silo makes of the consensus. ``runs_kept``: Flower's runs
    of which ``state`` keeps where the learner stood. ``sends_scores``: whether test scores go on replies.
    ``simulated``: whether it is a simulation; only there may weights leave. ``release_of`` makes what answers instead
    of the personal model or the bare students; None without a protection.
    """

    site: Site
    state: LocalState
    model: Path | None
    model_digest: bytes
    resumes: bool
    sends_scores: bool
    simulated: bool
    release_of: "Callable[[Answering], Release] | None" = None
    before: Path | None = None
    judgment: Path | None = None
    runs_kept: int = 8
    purse_of: "Callable[[], Purse] | None" = None
    """Makes the purse for the silo's part in sums with noise for records."""
    study_of: "Callable[[], StudyFolder] | None" = None
    """The study of a real silo that counts values or patients."""
    noise_adder_of: "Callable[[], NoiseAdder] | None" = None
    """Makes the adder of the silo's share of noise in sums of votes; None where it adds to no such sum."""
    in_process: bool = False
    """Whether its learner lives as long as its state does."""
    run: "RunFolder | None" = None
    """Where the user of a simulation reads what its learner raises; a real silo has none."""

    @property
    def decision(self) -> Path | None:
        """File of the safeguard's last decision, next to the judgment."""
        return self.judgment.with_suffix(".decision") if self.judgment else None

    @cached_property
    def answer_digest(self) -> bytes:
        """Digest (32 bytes) of what decides a reply: settings, whether it has scores, and all classes.

        The classes change when records are gone. Under a promise they do not count: no record decides, and another
        answer would spend more.
        """
        decisive = hashlib.sha256(self.model_digest + bytes([self.sends_scores]))
        if not (self.release_of or self.purse_of or self.noise_adder_of):
            decisive.update(self.site.private.y.tobytes() + self.site.own_test.y.tobytes())
        return decisive.digest()

    @cached_property
    def release(self) -> "Release | None":
        """The release that answers instead of the personal model."""
        return self.release_of(silo.Answering(self.site.labeler, {})) if self.release_of else None

    def release_of_students(self, votes: int) -> "Release | None":
        """The release that answers instead of bare students, with ``votes`` on each example."""
        return self.release_of(silo.by_students(self.site, votes)) if self.release_of else None


class Question(NamedTuple):
    """A coordinator's question: its bytes, what they say, the kind of answer, and the ``digest`` (32 bytes)."""

    payload: bytes
    instruction: Instruction
    kind: Kind
    digest: bytes
    """SHA-256 of the bytes and of the noise's size."""

    @classmethod
    def asked(cls, payload: bytes, context: SiloContext) -> Self:
        """Read a question. Raises Refused for one that is not of the silo's terms, or ConfigError."""
        instruction = decode_instruction(payload, context.site.terms)
        named = payload
        if instruction.noise and context.noise_adder_of:
            named += b" for %d honest silos" % context.noise_adder_of().honest
        return cls(payload, instruction, kind_of(instruction, context.site.terms), hashlib.sha256(named).digest())

    @property
    def teaches(self) -> bool:
        """Whether it has targets for the silo's own model."""
        return self.kind.teaches(self.instruction)

    @property
    def subject(self) -> bytes:
        """Name of a sum of the answers: SHA-256 of the bytes alone."""
        return hashlib.sha256(self.payload).digest()


def release_by(
    site: Site,
    labels: Mapping[str, object],
    purse_of: "Callable[[], Purse]",
    folder: Callable[[], Path],
    answering: "Answering",
) -> "Release":
    """Release of the answering model's labels, kept in ``folder``. Raises ConfigError where a package is missing."""
    labelers.check_installed(site.privacy)
    purse, state = purse_of(), FolderState(folder())
    digest = silo.settings_digest(site, labels, answering.decisive)
    return silo.Release(answering.labeler, purse, state, site.terms.study, digest)
