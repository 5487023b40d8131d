"""The audit's report for a data protection officer: one page, and the same as JSON."""

from typing import Any, Final

from scipy.stats import binom

from fedct_flwr.audit.adversaries import COORDINATOR, MODEL
from fedct_flwr.audit.audit import Audit, OfSeat
from fedct_flwr.audit.success import CONFIDENCE
from fedct_flwr.text.markdown import template
from fedct_flwr.text.printable import plain, printable

FILE: Final = "audit.json"
PAGE: Final = "audit.md"

SEES: Final = {
    COORDINATOR: "all that each silo sends, in every round",
    MODEL: "the model that a silo ends with, if it is given away",
}
_ATTACKS: Final = {
    "gap": "says *member* where the last label is right",
    "agreement": "counts the rounds in which the label is right",
    "confidence": "reads the probability of the true class",
    "gradient": "asks how much of the summed gradients points along the record's own",
    "lira": "compares with runs whose members it knows (likelihood ratio)",
}
_OF_SUMS: Final = "the opened sum over all silos, with the silos' noise in it"


def headline(seat: OfSeat) -> str:
    """The result of one seat in a sentence, for an attacker who knows all fields of each patient."""
    right, low, high = (round(100 * share) for share in (seat.right.value, seat.right.low, seat.right.high))
    return (
        f"Of 100 patients, an attacker who knows all fields tells membership right for {right} "
        f"({low} to {high}, 95% interval); by guessing 50"
    )


def most_exposed(found: Audit) -> str:
    """The record that is guessed right most often, in a sentence, and how often chance alone would tell one so."""
    first = max(found.exposed, key=lambda one: one.right)
    # The largest number that some record reaches by guessing as often as not.
    chance = int(binom.isf(0.5 / found.candidates, found.refits, 0.5))
    return (
        f"The most exposed record, number {first.record} of {printable(first.silo)}, is guessed right in "
        f"{first.right} of {found.refits} trainings; by guessing, the luckiest of {found.candidates} records would be "
        f"in about {chance}"
    )


def page(study: str, found: Audit, *, short: bool = False) -> str:
    """The page, as Markdown; ``short``: the first seat in a sentence, all seats in a table, and the promise."""
    values = {
        "study": study,
        "found": found,
        "short": short,
        "headline": headline(found.of(COORDINATOR)),
        "most_exposed": most_exposed(found) if found.exposed else "",
        "sees": {**SEES, COORDINATOR: _OF_SUMS} if found.about.noisy_sums else SEES,
        "attacks": _ATTACKS,
        "confidence": CONFIDENCE,
    }
    return template(__package__, "page.md").render(values)


def document(study: str, found: Audit) -> Any:
    """The same as JSON; docs/reference/json.md explains the keys."""
    about = found.about
    return plain(
        {
            "study": study,
            **{name: getattr(about, name) for name in ("algorithm", "protection", "epsilon", "delta")},
            **{name: getattr(found, name) for name in ("lower_epsilon", "refits", "candidates")},
            "seats": [_seat(seat) for seat in found.seats],
            "silos": found.silos,
            "exposed": found.exposed,
            "seconds": found.seconds,
        }
    )


def _seat(seat: OfSeat) -> dict[str, Any]:
    name, best = seat.strongest
    return {
        "seat": seat.seat,
        "strongest": name,
        "vul": best.value,
        "right": seat.right,
        "sentence": headline(seat),
        "attacks": dict(seat.attacks),
    }
