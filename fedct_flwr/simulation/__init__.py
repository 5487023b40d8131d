"""A whole federation on this machine: from data to a run."""
