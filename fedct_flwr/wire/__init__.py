"""Messages between coordinator and silos, to the byte."""

from typing import TYPE_CHECKING

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.wire.packing import can_count

__all__ = ["can_count"]

__getattr__ = importing(__name__, {"packing": ("can_count",)})
