"""Settings of runs, silos and studies. The only place that reads raw mappings."""

from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.privacy import PrivacySettings, TransferSettings
from fedct_flwr.config.run import MEMORY, STUDY, NodeConfig, RunConfig
from fedct_flwr.config.silo import Connection, DataSettings, Policy, SiloConfig
from fedct_flwr.config.study import CoordinatorConfig, ModelDescription, StudyConfig, StudyDraw, StudyJoint
from fedct_flwr.config.tables import TableSettings

__all__ = [
    "MEMORY",
    "STUDY",
    "Connection",
    "CoordinatorConfig",
    "DataSettings",
    "LearnerSettings",
    "ModelDescription",
    "NodeConfig",
    "Policy",
    "PrivacySettings",
    "RunConfig",
    "SiloConfig",
    "StudyConfig",
    "StudyDraw",
    "StudyJoint",
    "TableSettings",
    "TransferSettings",
]
