"""A whole federation on this machine: from data to a run."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.simulation.comparing import compared, groups_of
    from fedct_flwr.simulation.silo_model import SiloModel, by_group

__all__ = ["SiloModel", "by_group", "compared", "groups_of"]

__getattr__ = importing(__name__)
