"""A run as one HTML page: its folder (``summary``), a module a section, the page. Needs the extra ``report``."""
