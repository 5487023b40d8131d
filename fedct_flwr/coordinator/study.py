"""What the coordinator has at hand before the first round, whatever the algorithm."""

from dataclasses import dataclass
from typing import NamedTuple

from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.roster import Roster
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
from fedct_flwr.secure_sum.terms import Terms as SumTerms
from fedct_flwr.silo.site import joint_of
from fedct_flwr.types import Examples
from fedct_flwr.wire.content import Joint, Terms


class Subject(NamedTuple):
    """What the coordinator knows of a study. ``test`` may be empty.

    ``sums`` are the terms of real silos' secure sums, if they have any, and ``joint`` the joint labeler that they may
    train.
    """

    schema: Schema
    public: PublicSet
    test: Examples
    sums: SumTerms | None = None
    joint: Joint | None = None
    folder: StudyFolder | None = None
    """Of real silos."""

    @classmethod
    def simulated(cls, dataset: FederatedDataset) -> "Subject":
        """Of a simulation."""
        return cls(dataset.schema, dataset.public, dataset.test)

    @classmethod
    def real(cls, study: StudyFolder) -> "Subject":
        """Of a study's folder."""
        return cls(study.schema, study.public, study.test, study.sums, joint_of(study), study)


@dataclass(frozen=True, eq=False)
class Study:
    """One run: its settings, what it is about, what silos must agree to, who they are, and where results go.

    ``dataset`` is the data set of simulated silos; of real ones nothing is here.
    """

    config: RunConfig
    dataset: FederatedDataset | None
    subject: Subject
    terms: Terms
    roster: Roster
    folder: RunFolder
    checkpoint: Checkpoint | None = None
