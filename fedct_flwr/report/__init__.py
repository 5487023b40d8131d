"""A run as one HTML page: its folder (``summary``), sections, and the page. Needs the extra ``report``."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.report.page import NAME, check_extra, write_report
    from fedct_flwr.report.summary import RunSummary

__all__ = ["NAME", "RunSummary", "check_extra", "write_report"]

__getattr__ = importing(__name__)
