"""Settings of runs, silos and studies. The only place that reads raw mappings.

Each name is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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
_MODULES: Final = {name: f"{__name__}.{module}" for module, names in _WHERE.items() for name in names}

__all__ = [
    "MEMORY", "STUDY", "Connection", "CoordinatorConfig", "DataSettings", "LearnerSettings", "ModelDescription",
    "NodeConfig", "Policy", "PrivacySettings", "RunConfig", "SiloConfig", "StudyConfig", "StudyDraw", "StudyJoint",
    "TableSettings", "TransferSettings",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
