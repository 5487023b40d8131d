"""Model files and what may be in them, students, cards, ONNX."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.models.loading import load_model
    from fedct_flwr.models.model_file import (
        Recalibrated,
        can_be_saved,
        card_of,
        describe,
        description_of,
        promised,
        promised_by_noise,
        promised_together,
        save_model,
    )
    from fedct_flwr.models.onnx_export import to_onnx

__all__ = [
    "Recalibrated", "can_be_saved", "card_of", "describe", "description_of", "load_model", "promised",
    "promised_by_noise", "promised_together", "save_model", "to_onnx",
]  # fmt: skip

__getattr__ = importing(__name__)
