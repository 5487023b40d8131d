"""Time to an event: ridge Cox models, grades of risk, and measures for records that are censored."""
