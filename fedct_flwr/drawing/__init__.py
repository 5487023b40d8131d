"""Public sets that are drawn where none exists: from a data dictionary, or from silos' histograms with noise."""

from typing import TYPE_CHECKING

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.drawing.drawn import Drawn
    from fedct_flwr.drawing.marginals import draw
    from fedct_flwr.drawing.simulated import WITHOUT_DICTIONARY

__all__ = ["WITHOUT_DICTIONARY", "Drawn", "draw"]

__getattr__ = importing(__name__, {"marginals": ("draw",), "drawn": ("Drawn",), "simulated": ("WITHOUT_DICTIONARY",)})
