"""Algorithms as objects, for ``simulate()``, each with the settings that are its own.

They are the algorithms of ``table.py``; what their settings mean and what they are by default, ``config/run.py``
says. Nothing is checked here: a run checks all of its settings together.

>>> FedCT(Qualified(quorum=0.8)).settings()
{'algorithm': 'fedct-qualified', 'quorum': 0.8}
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from fedct_flwr.config import RunConfig
from fedct_flwr.config.settings import kebab


def _default(field: str) -> Any:
    """What the run config has where nothing is said: every default is written once."""
    return RunConfig.model_fields[field].default


class Method(Protocol):
    """An algorithm with its settings."""

    def settings(self) -> dict[str, Any]:
        """Keys of the run config and their values."""
        ...


class _Named:
    """Writes ``algorithm`` and each field under its key of the run config."""

    name: ClassVar[str]
    keys: ClassVar[Mapping[str, str]] = {}
    """Keys of fields that are called otherwise."""

    def settings(self) -> dict[str, Any]:
        """Keys of the run config and their values."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"algorithm": self.name, **{self.keys.get(name, kebab(name)): value for name, value in own.items()}}


# --- how FedCT makes a consensus of hard labels


@dataclass(frozen=True)
class DawidSkene(_Named):
    """Votes weighed by how good each silo is at each class."""

    name = "fedct-dawid-skene"


@dataclass(frozen=True)
class Plurality(_Named):
    """All votes count the same, as in the paper."""

    name = "fedct"


@dataclass(frozen=True)
class Qualified(_Named):
    """Labels with less than the share ``quorum`` of the votes are dropped for the round."""

    name = "fedct-qualified"
    quorum: float = _default("quorum")


@dataclass(frozen=True)
class Agreement(_Named):
    """Votes weighed by how much silos agree: from the first round (``static``) or in each (``dynamic``)."""

    name = "fedct-agreement"
    trust: str = _default("trust")


Rule: TypeAlias = DawidSkene | Plurality | Qualified | Agreement

_DAWID_SKENE: Final = DawidSkene()


@dataclass(frozen=True)
class FedCT:
    """Federated co-training (Abourayya et al., arXiv:2310.05696) with a rule for the consensus."""

    rule: Rule = _DAWID_SKENE

    def settings(self) -> dict[str, Any]:
        """Keys of the run config and their values."""
        return self.rule.settings()


# --- one round


@dataclass(frozen=True)
class FedKT(_Named):
    """Votes of each silo's students, once (Li et al., arXiv:2010.01017)."""

    name = "fedkt"
    privacy_level: str = _default("privacy_level")
    partitions: int = _default("partitions")
    teachers: int = _default("teachers")
    mechanism: str = _default("mechanism")
    gamma: float = _default("gamma")
    lessons: int = _default("lessons")
    epsilon: float = _default("epsilon")
    delta: float = _default("delta")


@dataclass(frozen=True)
class PATE(_Named):
    """Every silo is a teacher, once (Papernot et al., arXiv:1610.05755)."""

    name = "pate"


@dataclass(frozen=True)
class PrivatePATE(_Named):
    """PATE with noise on the votes at the coordinator (Papernot et al., arXiv:1802.08908)."""

    name = "dp-pate"
    mechanism: str = _default("mechanism")
    quorum: float = _default("quorum")
    gamma: float = _default("gamma")
    epsilon: float = _default("epsilon")
    delta: float = _default("delta")


# --- silos share probabilities


@dataclass(frozen=True)
class PredictionConsensus(_Named):
    """Each silo learns the others' probabilities by its trust in them (Fan et al., arXiv:2305.18497)."""

    name = "prediction-consensus"
    trust: str = _default("trust")
    consensus_weight: float = _default("consensus_weight")
    warm_up_rounds: int = _default("warm_up_rounds")


@dataclass(frozen=True)
class DistributedDistillation(_Named):
    """All learn the mean of all probabilities (Bistritz et al., NeurIPS 2020)."""

    name = "dd"
    consensus_weight: float = _default("consensus_weight")
    warm_up_rounds: int = _default("warm_up_rounds")


@dataclass(frozen=True)
class FedMD(_Named):
    """Silos digest the mean of all probabilities, then revisit their records (Li & Wang, arXiv:1910.03581)."""

    name = "fedmd"
    warm_up_rounds: int = _default("warm_up_rounds")


# --- baselines, in which silos share weights of networks


@dataclass(frozen=True)
class FedAvg(_Named):
    """The mean of all networks (McMahan et al., arXiv:1602.05629)."""

    name = "fedavg"
    initial_model: str = _default("initial_model")


@dataclass(frozen=True)
class FedProx(_Named):
    """FedAvg with a term ``mu`` that holds silos near the mean (Li et al., arXiv:1812.06127)."""

    name = "fedprox"
    keys: ClassVar = {"mu": "proximal-mu"}
    mu: float = _default("proximal_mu")
    initial_model: str = _default("initial_model")


@dataclass(frozen=True)
class Scaffold(_Named):
    """FedAvg with control variates (Karimireddy et al., arXiv:1910.06378)."""

    name = "scaffold"
    initial_model: str = _default("initial_model")


@dataclass(frozen=True)
class FedDyn(_Named):
    """FedAvg with a term that changes from round to round (Acar et al., arXiv:2111.04263)."""

    name = "feddyn"
    keys: ClassVar = {"alpha": "feddyn-alpha"}
    alpha: float = _default("feddyn_alpha")
    initial_model: str = _default("initial_model")


@dataclass(frozen=True)
class FedDF(_Named):
    """The mean then learns from all networks on the public set (Lin et al., arXiv:2006.07242)."""

    name = "feddf"
    distillation_steps: int = _default("distillation_steps")
    initial_model: str = _default("initial_model")


@dataclass(frozen=True)
class PFNM(_Named):
    """Neurons that do the same are found and averaged, once (Yurochkin et al., arXiv:1905.12022)."""

    name = "pfnm"
    keys: ClassVar = {
        "silo_variance": "pfnm-silo-variance",
        "global_variance": "pfnm-global-variance",
        "gamma": "pfnm-gamma",
    }
    silo_variance: float = _default("pfnm_silo_variance")
    global_variance: float = _default("pfnm_global_variance")
    gamma: float = _default("pfnm_gamma")


@dataclass(frozen=True)
class PrivateFedAvg(_Named):
    """FedAvg with noise that protects silos (McMahan et al., arXiv:1710.06963)."""

    name = "dp-fedavg"
    epsilon: float = _default("epsilon")
    delta: float = _default("delta")
    clipping_norm: float = _default("clipping_norm")
    initial_model: str = _default("initial_model")
