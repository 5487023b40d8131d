"""Settings of runs, silos and studies. The only place that reads raw mappings.

Each name is imported when it is first asked for.
"""

from typing import TYPE_CHECKING, Final

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.config.learner import LearnerSettings
    from fedct_flwr.config.privacy import PrivacySettings, TransferSettings
    from fedct_flwr.config.run import MEMORY, STUDY, NodeConfig, RunConfig
    from fedct_flwr.config.silo import Connection, DataSettings, Policy, SiloConfig
    from fedct_flwr.config.study import CoordinatorConfig, ModelDescription, StudyConfig, StudyDraw, StudyJoint
    from fedct_flwr.config.tables import TableSettings

_WHERE: Final = {
    "learner": ("LearnerSettings",),
    "privacy": ("PrivacySettings", "TransferSettings"),
    "run": ("MEMORY", "STUDY", "NodeConfig", "RunConfig"),
    "silo": ("Connection", "DataSettings", "Policy", "SiloConfig"),
    "study": ("CoordinatorConfig", "ModelDescription", "StudyConfig", "StudyDraw", "StudyJoint"),
    "tables": ("TableSettings",),
}

__all__ = [
    "MEMORY", "STUDY", "Connection", "CoordinatorConfig", "DataSettings", "LearnerSettings", "ModelDescription",
    "NodeConfig", "Policy", "PrivacySettings", "RunConfig", "SiloConfig", "StudyConfig", "StudyDraw", "StudyJoint",
    "TableSettings", "TransferSettings",
]  # fmt: skip

__getattr__ = importing(__name__, _WHERE)
