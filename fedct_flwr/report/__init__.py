"""A run as one HTML page: its folder (``summary``), sections, and the page. Needs the extra ``report``."""
