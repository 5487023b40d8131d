"""A run as one HTML page: what its folder says (``summary``), what is shown of it (``sections``), the page itself.

Needs the extra ``report``.
"""
