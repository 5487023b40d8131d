"""Which settings have an effect, as each part of a run declares it, and the sentence that refuses the others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

_MOST_NAMED: Final = 4
_EXAMPLES: Final = 3


class Needs(NamedTuple):
    """What a setting needs besides: ``words`` for the sentence, ``met`` whether a run has it."""

    words: str
    met: Callable[[Any], bool]


NOTHING_ELSE: Final = Needs("", lambda config: True)

Uses: TypeAlias = dict[str, Needs]
"""The keys that a part of a run uses, and what each needs besides."""


def uses(*keys: str, needs: Needs = NOTHING_ELSE) -> Uses:
    """These keys, all with the same needs.

    >>> sorted(uses("quorum") | uses("gamma", needs=Needs("noise", lambda config: False)))
    ['gamma', 'quorum']
    """
    return dict.fromkeys(keys, needs)


class Choice(NamedTuple):
    """A setting that decides which others have an effect: ``used`` by the run's choice, ``options`` of all choices.

    ``said`` names the choice in a sentence, and ``instead`` says how to choose others.
    """

    said: str
    used: Uses
    options: Mapping[str, Uses]
    instead: Callable[[Sequence[str]], str]


def why_without_effect(key: str, choices: Iterable[Choice], config: object) -> str:
    """One sentence for a key that none of the choices uses although others would; empty where it has an effect.

    A key that no option of any choice uses is not theirs to judge.

    >>> options = {"fedprox": uses("proximal-mu"), "fedct": {}}
    >>> choice = Choice("algorithm 'fedct'", {}, options, lambda names: set_to("algorithm", names))
    >>> why_without_effect("proximal-mu", [choice], None)
    "proximal-mu has no effect on algorithm 'fedct': set algorithm to 'fedprox', or leave it out"
    """
    concerned = [choice for choice in choices if any(key in used for used in choice.options.values())]
    needs = [choice.used[key] for choice in concerned if key in choice.used]
    if not concerned or any(need.met(config) for need in needs):
        return ""
    if needs:
        wanted = " or ".join(need.words for need in needs)
        return f"{key} has no effect without {wanted}: set that, or leave it out"
    where = " with ".join(choice.said for choice in concerned)
    remedies = [choice.instead([n for n, used in choice.options.items() if key in used]) for choice in concerned]
    return f"{key} has no effect on {where}: {', or '.join(dict.fromkeys(remedies))}, or leave it out"


def a_network(names: Sequence[str]) -> str:
    """How to choose a learner that is one."""
    return "name a network as learner, such as that of examples/own_network"


def set_to(setting: str, names: Sequence[str]) -> str:
    """How to choose one of these values; of many, a few.

    >>> set_to("data set", ["a", "b", "c", "d", "e"])
    "choose another data set, such as 'a', 'b' or 'c'"
    >>> set_to("algorithm", ["a", "b"])
    "set algorithm to 'a' or 'b'"
    """
    if len(names) > _MOST_NAMED:
        return f"choose another {setting}, such as {either(names[:_EXAMPLES])}"
    return f"set {setting} to {either(names)}"


def either(names: Sequence[str]) -> str:
    """These names as alternatives.

    >>> either(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last
