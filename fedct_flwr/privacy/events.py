"""Events: what code that spends privacy says that it spends. Two that dp_accounting lacks, and all of them as text.

Every event describes the worst pair of outputs of one mechanism on adjacent inputs; its sensitivity is what the
mechanism's ``unit`` can change. The code that makes an event has done that step.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import attr
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
    UnsupportedEventError,
)
from dp_accounting.dp_event import DiscreteLaplaceDpEvent

from fedct_flwr.files import DAMAGED
from fedct_flwr.privacy.budget import check_epsilon


@attr.s(frozen=True, slots=True, auto_attribs=True)
class DiscreteGaussianDpEvent(DpEvent):  # type: ignore[misc]  # dp_accounting is untyped
    """Discrete Gaussian noise on one integer, which a unit changes by at most ``sensitivity``.

    Canonne, Kamath, Steinke, NeurIPS 2020: sensitivity**2 / (2 scale**2)-zCDP, with a privacy loss of its own.
    """

    scale: float
    sensitivity: int


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDpEvent(DpEvent):  # type: ignore[misc]  # dp_accounting is untyped
    """A mechanism whose log-likelihood ratios on adjacent inputs all lie in one interval of length ``eta``.

    The exponential mechanism is one (Dong, Durfee, Rogers, ICML 2020). It is eta-DP and eta**2/8-zCDP.
    """

    eta: float


def pure(epsilon: float) -> DpEvent:
    """Any mechanism that is ``epsilon``-DP, once: none is worse than a random answer to one yes-no question.

    Kairouz, Oh, Viswanath, "The composition theorem for differential privacy", ICML 2015. Raises ConfigError.
    """
    check_epsilon(epsilon)
    # exp(-epsilon), for exp(epsilon) overflows.
    return RandomizedResponseDpEvent(2 * math.exp(-epsilon) / (1 + math.exp(-epsilon)), 2)


def composed(*events: DpEvent) -> DpEvent:
    """All of the events, one after the other."""
    return ComposedDpEvent(list(events)) if events else NoOpDpEvent()


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _probability(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _natural(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _several(value: object) -> bool:
    return _natural(value) and value != 0 and value != 1


def _event(value: object) -> bool:
    return isinstance(value, DpEvent)


_KNOWN: Final[Mapping[type[DpEvent], Mapping[str, Callable[[object], bool]]]] = {
    NoOpDpEvent: {},
    RandomizedResponseDpEvent: {"noise_parameter": _probability, "num_buckets": _several},
    GaussianDpEvent: {"noise_multiplier": _positive},
    DiscreteLaplaceDpEvent: {"noise_parameter": _positive, "sensitivity": _natural},
    DiscreteGaussianDpEvent: {"scale": _positive, "sensitivity": _natural},
    BoundedRangeDpEvent: {"eta": _positive},
    PoissonSampledDpEvent: {"sampling_probability": _probability, "event": _event},
    SelfComposedDpEvent: {"event": _event, "count": _natural},
}
_BY_NAME: Final = {kind.__name__: kind for kind in _KNOWN}


def check(event: DpEvent) -> None:
    """Raise UnsupportedEventError for an event, or a part of one, that is not known or has impossible numbers.

    A negative count, say, would give privacy back.
    """
    if type(event) is ComposedDpEvent:
        for part in event.events:
            check(part)
        return
    fields = _KNOWN.get(type(event))
    if fields is None:
        raise UnsupportedEventError(f"no accountant here knows the event {type(event).__name__}")
    for name, fits in fields.items():
        if not fits(getattr(event, name)):
            raise UnsupportedEventError(f"the event {type(event).__name__} has an impossible {name}")
    if "event" in fields:
        check(event.event)
    if type(event) is PoissonSampledDpEvent and type(event.event) is not GaussianDpEvent:
        raise UnsupportedEventError("of a Poisson sample, only the Gaussian mechanism is accounted for")


def to_json(event: DpEvent) -> str:
    """The event as text, the same for equal events. Raises UnsupportedEventError for unknown ones."""
    check(event)
    return json.dumps(_plain(event), sort_keys=True, separators=(",", ":"))


def from_json(text: str) -> DpEvent:
    """The event that ``to_json`` wrote. Raises UnsupportedEventError for any other text; runs no code by name."""
    try:
        event = _event_of(json.loads(text))
    except DAMAGED:
        raise UnsupportedEventError("not an event") from None
    check(event)
    return event


def in_words(event: DpEvent, times: int = 1) -> str:
    """The event and its noise, with all numbers that its cost follows from.

    >>> in_words(SelfComposedDpEvent(GaussianDpEvent(14.4567), 5), 3)
    '15 times Gaussian noise with a standard deviation of 14.4567 times the largest change'
    """
    match event:
        case SelfComposedDpEvent():
            return in_words(event.event, times * event.count)
        case ComposedDpEvent():
            return "; ".join(in_words(part, times) for part in event.events)
        case GaussianDpEvent():
            noise = f"Gaussian noise with a standard deviation of {event.noise_multiplier:.6g} times the largest change"
        case PoissonSampledDpEvent():
            sample = f"a random sample, which has each with a probability of {event.sampling_probability:.6g}"
            return f"{in_words(event.event, times)}, on {sample}"
        case RandomizedResponseDpEvent():
            noise = (
                f"a label replaced with a probability of {event.noise_parameter:.6g} by one drawn from all "
                f"{event.num_buckets} classes"
            )
        case DiscreteLaplaceDpEvent():
            noise = f"Laplace noise of scale {1 / event.noise_parameter:.6g}, the largest change {event.sensitivity}"
        case DiscreteGaussianDpEvent():
            noise = (
                f"Gaussian noise with a standard deviation of {event.scale:.6g}, the largest change {event.sensitivity}"
            )
        case BoundedRangeDpEvent():
            noise = f"a class drawn by odds whose logarithms change within a range of {event.eta:.6g}"
        case _:
            noise = "no noise"
    return f"{times:,} times {noise}"


def _plain(event: DpEvent) -> dict[str, Any]:
    if type(event) is ComposedDpEvent:
        return {"type": "ComposedDpEvent", "events": [_plain(part) for part in event.events]}
    values = {name: getattr(event, name) for name in _KNOWN[type(event)]}
    return {"type": type(event).__name__} | {
        name: _plain(value) if isinstance(value, DpEvent) else value for name, value in values.items()
    }


def _event_of(plain: dict[str, Any]) -> DpEvent:
    fields = dict(plain)
    name = fields.pop("type")
    if name == "ComposedDpEvent":
        return ComposedDpEvent([_event_of(part) for part in fields["events"]])
    if "event" in fields:
        fields["event"] = _event_of(fields["event"])
    return _BY_NAME[name](**fields)
