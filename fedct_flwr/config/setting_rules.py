"""Which settings have an effect, as each part of a run declares it, and the sentence that refuses the others."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    """A setting that decides which others have an effect: the names that are ``chosen``, and what each option uses.

    ``words`` say in a sentence how to choose other names, which stand for ``{}``.
    """

    words: str
    chosen: Collection[str]
    options: Mapping[str, Uses]


def why_without_effect(key: str, choices: Iterable[Choice], config: object) -> str:
    """One sentence for a key that no choice uses although its other options would; empty where it has an effect.

    >>> choice = Choice("algorithm = {}", ["fedct"], {"fedprox": uses("proximal-mu"), "fedct": {}})
    >>> why_without_effect("proximal-mu", [choice], None)
    "proximal-mu has no effect without algorithm = 'fedprox': set that, or leave it out"
    """
    concerned = [choice for choice in choices if any(key in used for used in choice.options.values())]
    used = [choice.options.get(name, {}) for choice in concerned for name in choice.chosen]
    needs = [keys[key] for keys in used if key in keys]
    if not concerned or any(need.met(config) for need in needs):
        return ""
    wanted = [need.words for need in needs]
    for choice in [] if needs else concerned:
        names = [name for name, keys in choice.options.items() if key in keys]
        few = f"{', '.join(map(repr, names[:_EXAMPLES]))} or others" if len(names) > _MOST_NAMED else either(names)
        wanted.append(choice.words.format(few))
    return f"{key} has no effect without {' or '.join(dict.fromkeys(wanted))}: set that, or leave it out"


def either(names: Sequence[str]) -> str:
    """These names as alternatives.

    >>> either(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last
