"""What the coordinator has at hand before the first round, whatever the algorithm."""

from dataclasses import dataclass

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.run_folder import Checkpoint, RunFolder
from fedct_flwr.strategies.roster import Roster
from fedct_flwr.wire.codec import Terms


@dataclass(frozen=True, eq=False)
class Study:
    """One run: its settings, what silos must agree to, who they are, and where results go.

    ``dataset`` is the data set of simulated silos; of real ones nothing is here.
    """

    config: RunConfig
    dataset: FederatedDataset | None
    terms: Terms
    roster: Roster
    folder: RunFolder
    checkpoint: Checkpoint | None = None
