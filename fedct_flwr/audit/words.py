"""What an audit says, for a data protection officer: one page, and the same as a document for programs."""

from typing import Any, Final

from fedct_flwr.audit.adversaries import COORDINATOR, MODEL, OTHER_SILO
from fedct_flwr.audit.audit import Audit, OfSeat
from fedct_flwr.audit.success import CONFIDENCE, Success
from fedct_flwr.scoring.intervals import Estimate
from fedct_flwr.text.printable import printable

FILE: Final = "audit.json"
PAGE: Final = "audit.md"

SEES: Final = {
    COORDINATOR: "all that each silo sends, in every round",
    OTHER_SILO: "all that the coordinator sends back to a silo",
    MODEL: "the model that a silo ends with, if it is given away",
}
_ATTACKS: Final = {
    "gap": "says *member* where the last label is right",
    "agreement": "counts the rounds in which the label is right",
    "calibrated": "takes off how often silos without the record are right",
    "near": "asks how the most similar public examples are labeled",
    "confidence": "reads the probability of the true class",
    "boundary": "changes fields until the label flips",
    "gradient": "asks how much of the summed gradients points along the record's own",
    "lira": "compares with runs whose members it knows (likelihood ratio)",
    "rmia": "compares with runs whose members it knows, and with strangers",
}


_OF_SUMS: Final = "the opened sum over all silos, with the silos' noise in it"
_STOP: Final = "stop the study and report this."


def headline(seat: OfSeat) -> str:
    """The result of one seat in a sentence, for an attacker who knows all fields of each patient."""
    right, (low, high) = (
        _of_100(seat.guesses.right.value),
        map(_of_100, (seat.guesses.right.low, seat.guesses.right.high)),
    )
    return (
        f"Of 100 patients, an attacker who knows all fields tells membership right for {right} "
        f"({low} to {high}, 95% interval); by guessing 50"
    )


def page(study: str, found: Audit) -> str:
    """The page, as Markdown."""
    parts = [f"# Audit: study {printable(study)}", f"**{headline(found.of(COORDINATOR))}.**", _about(found)]
    parts += ["## Attacks by seat", _seats(found), "## All attacks", _attacks(found)]
    if found.epsilon is not None and found.lower_epsilon is not None:
        parts += ["## The promise of epsilon", _promise(found)]
    parts += ["## Exposure by silo", _silos(found), "## Most exposed records", _records(found)]
    parts += ["## Limits of this audit", _limits(found)]
    return "\n\n".join(parts) + "\n"


def summary(found: Audit) -> str:
    """The most important of the page: the first seat in a sentence, all seats in a table, and the promise."""
    parts = [f"**{headline(found.of(COORDINATOR))}.**", _seats(found)]
    if found.epsilon is not None:
        parts.append(_promise(found))
    return "\n\n".join(parts)


def document(study: str, found: Audit) -> dict[str, Any]:
    """The same for programs; docs/reference/json.md says what the keys mean."""
    return {
        "study": study,
        "algorithm": found.algorithm,
        "protection": found.protection,
        "epsilon": found.epsilon,
        "delta": found.delta,
        "lower_epsilon": found.lower_epsilon,
        "refits": found.refits,
        "candidates": found.candidates,
        "planted": found.planted,
        "forged": found.forged,
        "seats": [_seat(seat) for seat in found.seats],
        "silos": {silo: _interval(area) for silo, area in found.silos.items()},
        "exposed": [{"silo": one.silo, "record": one.record, "right": one.right} for one in found.exposed],
        "seconds": found.seconds,
    }


def _seat(seat: OfSeat) -> dict[str, Any]:
    name, best = seat.strongest
    return {
        "seat": seat.seat,
        "strongest": name,
        "vul": best.auc.value,
        "right": _interval(seat.guesses.right),
        "sentence": headline(seat),
        "attacks": {attack: _success(found) for attack, found in seat.attacks.items()},
    }


def _success(found: Success) -> dict[str, Any]:
    one_percent, one_in_a_thousand = found.true_positives
    return {
        "auc": _interval(found.auc),
        "tpr_at_1_percent": _interval(one_percent),
        "tpr_at_01_percent": _interval(one_in_a_thousand),
        "members": found.members,
        "non_members": found.non_members,
    }


def _interval(found: Estimate) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}


def _of_100(share: float) -> int:
    return round(100 * share)


def _told(found: Estimate) -> str:
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def _about(found: Audit) -> str:
    protection = "no protection" if found.protection == "none" else f"protection `{found.protection}`"
    where = "stood in the public set" if found.planted else "did not stand in the public set"
    forged = " The coordinator also sent false labels of them." if found.forged else ""
    return (
        f"The audit repeated the training {found.refits} times, with {found.algorithm} and {protection}. Each time, a "
        f"coin decided for each of {found.candidates} records whether its silo had it. All of them {where}.{forged}"
    )


def _seats(found: Audit) -> str:
    rows = [
        "| seat | sees | right of 100 | strongest attack | VUL (area under the curve) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for seat in found.seats:
        name, best = seat.strongest
        sees = _OF_SUMS if found.noisy_sums and seat.seat == COORDINATOR else SEES[seat.seat]
        rows.append(f"| {seat.seat} | {sees} | {_of_100(seat.guesses.right.value)} | {name} | {_told(best.auc)} |")
    return "\n".join(rows)


def _attacks(found: Audit) -> str:
    rows = [
        "| seat | attack | how | VUL | members found at 1% false alarms | at 0.1% |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for seat in found.seats:
        for name, success in seat.attacks.items():
            few, fewer = (f"{100 * one.value:.1f}%" for one in success.true_positives)
            rows.append(f"| {seat.seat} | {name} | {_ATTACKS[name]} | {_told(success.auc)} | {few} | {fewer} |")
    return "\n".join(rows)


def _promise(found: Audit) -> str:
    lower, promised = found.lower_epsilon or 0.0, found.epsilon or 0.0
    said = (
        f"The settings promise an epsilon of at most {promised:g} for each record. The guesses prove an epsilon of at "
        f"least {lower:.3g} at delta {found.delta:g}, with {100 * CONFIDENCE:.0f}% confidence."
    )
    if lower > promised:
        return f"{said} **The promise is broken: {_STOP}**"
    return f"{said} Nothing speaks against the promise."


def _silos(found: Audit) -> str:
    rows = ["| silo | records | VUL |", "| --- | --- | --- |"]
    ranked = sorted(found.silos.items(), key=lambda item: -item[1].value)
    rows += [f"| {printable(silo)} | {found.records[silo]:,} | {_told(area)} |" for silo, area in ranked]
    return "\n".join(rows)


def _records(found: Audit) -> str:
    chance = found.candidates / 2**found.refits
    rows = ["| silo | record | told right |", "| --- | --- | --- |"]
    rows += [f"| {printable(one.silo)} | {one.record} | {one.right} of {found.refits} |" for one in found.exposed]
    note = (
        f"Records count from 0 among a silo's private records. By chance alone, about {chance:.1f} of the "
        f"{found.candidates} records are told right every time."
    )
    return "\n".join(rows) + f"\n\n{note}"


def _limits(found: Audit) -> str:
    lines = [
        "The attacker knows all fields of each record, and has runs with known members to learn from.",
        "Silos train on fewer records than in the run, as some are held out. With fewer records, attacks work better.",
        "A stronger attack may exist. Only a proven epsilon bounds all attacks.",
        "An audit protects nobody. Its page names records, so keep it as you keep the records.",
    ]
    if found.noisy_sums:
        lines.append("Secure sums count as unbroken: nobody reads what a single silo adds.")
    if found.planted:
        lines.append("Records stood in the public set. Where they do not, the coordinator learns less.")
    return "\n".join(f"- {line}" for line in lines)
