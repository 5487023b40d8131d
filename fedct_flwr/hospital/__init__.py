"""The agent at a hospital: its SuperNode, the gate, approvals, the egress log, keys."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.hospital.app_agent import AppAgent
    from fedct_flwr.hospital.study_agent import StudyAgent, answer_file

__all__ = ["AppAgent", "StudyAgent", "answer_file"]

__getattr__ = importing(__name__)
