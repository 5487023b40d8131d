"""A run as one HTML page: what its folder says (``summary``), what is shown of it (a module a section), the page.

Needs the extra ``report``.
"""
