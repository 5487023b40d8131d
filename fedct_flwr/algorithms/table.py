"""The papers as a table: how each algorithm is put together, from the run config to what the coordinator runs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from flwr.serverapp import Grid

from fedct_flwr.baselines.dp_fedavg import PrivateWeightSharing
from fedct_flwr.baselines.fedavg import Averaging
from fedct_flwr.baselines.feddf import DistilledWeightSharing
from fedct_flwr.baselines.feddyn import DynamicWeightSharing
from fedct_flwr.baselines.fedprox import ProximalWeightSharing
from fedct_flwr.baselines.pfnm import MatchedWeightSharing
from fedct_flwr.baselines.scaffold import ControlledWeightSharing
from fedct_flwr.baselines.weight_sharing import WeightSharing
from fedct_flwr.config import RunConfig
from fedct_flwr.config.uses import Needs, Uses, uses
from fedct_flwr.consensus.agreement import agreement
from fedct_flwr.consensus.counting import Consensus, Decide, consistent, counting, plurality, qualified
from fedct_flwr.consensus.dawid_skene import dawid_skene
from fedct_flwr.consensus.prediction import consensus_of_values, prediction_consensus
from fedct_flwr.consensus.trust import TRUSTS, TrustRule, naive, similarity_of_values
from fedct_flwr.coordinator.label_sharing import ASKING, CALIBRATED, CO_TRAINING, IN_ROUNDS, LabelSharing
from fedct_flwr.coordinator.study import Study
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.kinds import COUNTS, PROBABILITIES, kind_for
from fedct_flwr.kinds.base import Kind
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError, SiloName


class Algorithm(Protocol):
    """What the coordinator does."""

    @property
    def title(self) -> str:
        """What tables call it."""
        ...

    @property
    def kind(self) -> Kind | None:
        """What silos answer where there are classes; None where they share weights."""
        ...

    @property
    def leaves(self) -> str:
        """What leaves a silo where there are classes, in plain words."""
        ...

    @property
    def settings(self) -> Uses:
        """Keys of the run config that it uses and some other algorithm does not."""
        ...

    def check(self, config: RunConfig, dataset: FederatedDataset | None) -> None:
        """Raise ConfigError for settings that the algorithm cannot work with, before anything runs.

        Without a ``dataset``, silos are real and choose their learners themselves.
        """
        ...

    def model_path(self, folder: RunFolder, silo: SiloName, suffix: str) -> Path:
        """Where a run in simulation keeps the model that a silo ends with."""
        ...

    def run(self, study: Study, grid: Grid) -> dict[str, Any]:
        """Run all rounds and return what ``result.json`` tells. Raises RunError."""
        ...


def _fedct(config: RunConfig, num_classes: int) -> Consensus:
    """FedCT: every silo's hard label counts, the plurality wins (Abourayya et al., arXiv:2310.05696, Alg. 1)."""
    return counting(num_classes, plurality)


def _fedct_qualified(config: RunConfig, num_classes: int) -> Consensus:
    """FedCT with a qualified majority: labels below the quorum are dropped for the round (ibid., §5)."""
    return counting(num_classes, partial(qualified, quorum=config.quorum))


def _fedct_dawid_skene(config: RunConfig, num_classes: int) -> Consensus:
    """FedCT with a consensus that knows how good each silo is at each class (Dawid & Skene 1979; FedCT: ibid.)."""
    return dawid_skene(num_classes)


def _fedct_agreement(config: RunConfig, num_classes: int) -> Consensus:
    """FedCT with votes weighted by trust, from hard labels (after Fan et al., arXiv:2305.18497, §3)."""
    return agreement(num_classes, trust="dynamic" if config.trust == "dynamic" else "static")


def _prediction_consensus(config: RunConfig, num_classes: int) -> Consensus:
    """Each silo learns the others' probabilities by its trust in them (Fan et al., arXiv:2305.18497, Alg. 1)."""
    return _by_trust(TRUSTS[config.trust], num_classes)


def _dd(config: RunConfig, num_classes: int) -> Consensus:
    """Distributed distillation: all learn the mean of all (Bistritz et al., NeurIPS 2020; [14] of arXiv:2305.18497)."""
    return _by_trust(naive, num_classes)


def _by_trust(rule: Callable[..., TrustRule], num_classes: int) -> Consensus:
    """On probabilities, or without classes on the values of a quantity (arXiv:2305.18497, §3.2 and Appendix A)."""
    return prediction_consensus(num_classes, rule()) if num_classes else consensus_of_values(rule(similarity_of_values))


def _fedkt(config: RunConfig, num_classes: int, decide: Decide = plurality) -> Consensus:
    """FedKT: silos whose students all agree, counted by their students (Li et al., arXiv:2010.01017, Alg. 1)."""
    return consistent(num_classes, config.votes, decide)


def _fedkt_noise(config: RunConfig) -> str:
    """At L1 on the counts of students. At L2 it is the silos'."""
    return (config.mechanism or "laplace") if config.privacy_level == "L1" else ""


def _pate(config: RunConfig, num_classes: int, decide: Decide = plurality) -> Consensus:
    """PATE: every silo is a teacher, the plurality wins (Papernot et al., arXiv:1610.05755, §2.1)."""
    return counting(num_classes, decide)


def _pate_noise(config: RunConfig) -> str:
    """LNMax of that paper; GNMax and confident GNMax of Papernot et al., arXiv:1802.08908, §4."""
    return config.mechanism or "gaussian"


def _fedmd(config: RunConfig, num_classes: int) -> Consensus:
    """FedMD: each round silos digest the mean, then revisit their records (Li & Wang, arXiv:1910.03581, Alg. 1).

    The paper's silos first learn the public set's labels. Here it has none: they begin with the first consensus on it.
    Code that passes for the authors' (diogenes0319/FedMD_clean) averages logits and fits them by absolute error; here
    it is probabilities, by cross-entropy.
    """
    return prediction_consensus(num_classes, naive())


_NOISE: Final = Needs("privacy-level = 'L1' or 'L2'", lambda config: config.privacy_level != "L0")
_OF_FEDKT: Final = (
    ASKING
    | uses("privacy-level", "partitions", "teachers")
    | uses("mechanism", "gamma", "delta", needs=_NOISE)
    | uses(
        "epsilon",
        # At L2 the silos' ledgers hold it as their budget, whatever the noise.
        needs=Needs(
            "privacy-level = 'L2', or 'L1' and no gamma",
            lambda config: config.privacy_level == "L2" or (config.privacy_level == "L1" and not config.gamma),
        ),
    )
    | uses("lessons", needs=Needs("privacy-level = 'L2'", lambda config: config.privacy_level == "L2"))
)
_OF_PATE: Final = ASKING | CALIBRATED | uses("report-scores", "protection")
_OF_DP_PATE: Final = (
    _OF_PATE
    | uses("mechanism", "gamma", "delta")
    # A gamma says how much noise there is, and epsilon follows.
    | uses("epsilon", needs=Needs("gamma = 0", lambda config: not config.gamma))
    | uses("quorum", needs=Needs("mechanism = 'confident-gaussian'", lambda c: c.mechanism == "confident-gaussian"))
)
_OF_DD: Final = IN_ROUNDS | uses("consensus-weight", "warm-up-rounds", "pseudo-weight")

ALGORITHMS: Final[dict[str, Algorithm]] = {
    "fedct": LabelSharing("FedCT", _fedct),
    "fedct-qualified": LabelSharing("FedCT", _fedct_qualified, CO_TRAINING | uses("quorum")),
    "fedct-dawid-skene": LabelSharing("FedCT", _fedct_dawid_skene),
    "fedct-agreement": LabelSharing("FedCT", _fedct_agreement, CO_TRAINING | uses("trust")),
    # One round each: what the silos' models, or the students of each, say of the public set.
    "fedkt": LabelSharing(
        "FedKT",
        _fedkt,
        _OF_FEDKT,
        _fedkt_noise,
        kind=COUNTS,
    ),
    "pate": LabelSharing("PATE", _pate, _OF_PATE),
    "dp-pate": LabelSharing("DP-PATE", _pate, _OF_DP_PATE, _pate_noise),
    # Probabilities in place of labels, and trust in place of votes that all count the same.
    "prediction-consensus": LabelSharing("PredCons", _prediction_consensus, _OF_DD | uses("trust"), kind=PROBABILITIES),
    "dd": LabelSharing("DD", _dd, _OF_DD, kind=PROBABILITIES),
    "fedmd": LabelSharing("FedMD", _fedmd, IN_ROUNDS | uses("warm-up-rounds"), kind=PROBABILITIES, in_turn=True),
    # The baseline that FedCT is compared with (McMahan et al., arXiv:1602.05629). Simulation only.
    "fedavg": WeightSharing("FedAvg", Averaging),
    # With a term in each silo's loss that holds it near the global weights (Li et al., arXiv:1812.06127).
    "fedprox": ProximalWeightSharing("FedProx"),
    # With control variates, which travel with the weights (Karimireddy et al., arXiv:1910.06378, option II).
    "scaffold": ControlledWeightSharing("SCAFFOLD"),
    # With a term in each silo's loss that changes from round to round (Acar et al., arXiv:2111.04263).
    "feddyn": DynamicWeightSharing("FedDyn"),
    # The average then learns on the public set from all silos' models (Lin et al., arXiv:2006.07242).
    "feddf": DistilledWeightSharing("FedDF"),
    # One round, after which neurons that do the same are found and averaged (Yurochkin et al., arXiv:1905.12022).
    "pfnm": MatchedWeightSharing("PFNM"),
    # FedAvg with central differential privacy per silo (McMahan et al., arXiv:1710.06963). Simulation only.
    "dp-fedavg": PrivateWeightSharing("DP-FedAvg"),
}


def find_algorithm(config: RunConfig) -> Algorithm:
    """The algorithm that the run config names. Raises ConfigError for an unknown name."""
    if config.algorithm not in ALGORITHMS:
        raise ConfigError(f"unknown algorithm {config.algorithm!r}: {suggest(config.algorithm, ALGORITHMS)}")
    return ALGORITHMS[config.algorithm]


def what_leaves(algorithm: Algorithm, quantity: str) -> str:
    """What leaves a silo, in plain words, also where the value of a ``quantity`` is predicted (empty: classes)."""
    return kind_for(algorithm.kind, quantity).shared if algorithm.kind else algorithm.leaves
