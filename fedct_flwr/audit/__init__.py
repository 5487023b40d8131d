"""Attacks on what a run lets travel: how well they tell members from non-members, and what that proves of epsilon."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.audit.audit import How, attack, rehearse
    from fedct_flwr.audit.words import FILE, PAGE, document, page

__all__ = ["FILE", "PAGE", "How", "attack", "document", "page", "rehearse"]

__getattr__ = importing(__name__)
