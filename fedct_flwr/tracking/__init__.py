"""Runs in the trackers that people already use. At the coordinator alone: no silo imports this.

``base.py`` says what a tracker is told and when; ``to_mlflow.py`` and ``to_tensorboard.py`` are one tracker each.
"""

from fedct_flwr.tracking.base import Tracked, Tracker, check_tracking, metrics_of, parts_of, track_scores

__all__ = ["Tracked", "Tracker", "check_tracking", "metrics_of", "parts_of", "track_scores"]
