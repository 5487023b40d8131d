"""Settings of runs, silos and studies. The only place that reads raw mappings."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.config.silo import DataSettings

__all__ = ["DataSettings", "RunConfig"]

__getattr__ = importing(__name__)
