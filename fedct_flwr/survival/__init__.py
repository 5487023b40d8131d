"""Time to an event: ridge Cox models, grades of risk, and measures for records that are censored."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.survival.cox import RidgeCox
    from fedct_flwr.survival.measures import (
        EVENTS,
        GRADE_NAMES,
        Times,
        assess_times,
        check_can_rank,
        concordance,
        excess,
        follow_up,
        times_of,
        usual_horizon,
    )
    from fedct_flwr.survival.model import USUAL, OwnRanking, RiskModel

__all__ = [
    "EVENTS", "GRADE_NAMES", "USUAL", "OwnRanking", "RidgeCox", "RiskModel", "Times", "assess_times", "check_can_rank",
    "concordance", "excess", "follow_up", "times_of", "usual_horizon",
]  # fmt: skip

__getattr__ = importing(__name__)
