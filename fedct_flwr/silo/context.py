"""A silo as one message finds it: its site, its files, which never leave it, and the answers that it permits."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fedct_flwr import labelers, silo
from fedct_flwr.silo.site import FolderState, LocalState, Site

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
        if self.release_of is None:
            return None

        return self.release_of(silo.Answering(self.site.labeler, {}))

    def release_of_students(self, votes: int) -> "Release | None":
        """The release that answers instead of bare students, with ``votes`` on each example."""
        if self.release_of is None:
            return None

        return self.release_of(silo.by_students(self.site, votes))


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
