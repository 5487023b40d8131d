"""Labelers: whose labels leave a silo under a protection."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.labelers.dp_linear import sharing
    from fedct_flwr.labelers.joint_linear import expected, joint_labeler
    from fedct_flwr.labelers.labeler import Asked, Start, check_extra, check_installed, decides_labeler, labeler_for
    from fedct_flwr.labelers.students import check_records, teachers_noise, transfer_for

__all__ = [
    "Asked", "Start", "check_extra", "check_installed", "check_records", "decides_labeler", "expected",
    "joint_labeler", "labeler_for", "sharing", "teachers_noise", "transfer_for",
]  # fmt: skip

__getattr__ = importing(__name__)
