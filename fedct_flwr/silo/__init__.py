"""One round at a silo: its site, what is trained, what is released, what is kept."""

from typing import TYPE_CHECKING

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.silo.summing import Ready

__all__ = ["Ready"]

__getattr__ = importing(__name__, {"summing": ("Ready",)})
