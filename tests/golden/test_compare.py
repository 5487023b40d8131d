"""The comparison finds what it is for, and says where; on another CPU it forgives what that rounds, and no more."""

from typing import Any

import pytest

from tests.golden.compare import LAST_DIGITS, ROUNDED, SAME, differences

RECORDED: dict[str, Any] = {
    "messages": {
        "round 1, to a": {"fedct/payload": "3 bytes, base64 AAEC"},
        "round 1, from a": {"fedct/payload": "9 bytes, sha256 aa"},
        "round 1, from b": {"arrays/w": "float32 2x3, norm 1.5, sha256 aa", "metrics/n": 7},
    },
    "rounds": [{"round": 1, "agreement": 0.5, "absent": {}}, {"round": 2, "agreement": 0.75, "absent": {}}],
    "labels": {"sha256": "aa", "codes": "01" * 50},
}
ONE_OTHER = "00" + "01" * 49

CHANGES: dict[str, tuple[tuple[str | int, ...], Any, str, tuple[bool, bool]]] = {
    "a byte": (
        ("messages", "round 1, to a", "fedct/payload"),
        "3 bytes, base64 AAkC",
        "messages, round 1, to a, fedct/payload: byte 1 of 3 is 0x09, recorded was 0x01 of 3",
        (False, True),
    ),
    "its last digits": (
        ("rounds", 1, "agreement"),
        0.750000001,
        "rounds, round 2, agreement: 0.750000001, recorded was 0.75",
        (True, True),
    ),
    "a key": (("rounds", 0, "absent"), {"a": "late"}, "rounds, round 1, absent, a: was not there", (False, False)),
    "a label": (
        ("labels", "codes"),
        ONE_OTHER,
        "labels, codes: 1 of 100 labels are others, first that of example 1, which is 0 and was 1",
        (False, True),
    ),
}


def changed(path: tuple[str | int, ...], value: Any) -> Any:
    def put(part: Any, keys: tuple[str | int, ...]) -> Any:
        if not keys:
            return value
        items = list(part.items() if isinstance(part, dict) else enumerate(part))
        made = [(key, put(inner, keys[1:]) if key == keys[0] else inner) for key, inner in items]
        return dict(made) if isinstance(part, dict) else [inner for _, inner in made]

    return put(RECORDED, path)


@pytest.mark.parametrize(("path", "value", "said", "forgiven"), CHANGES.values(), ids=CHANGES)
def test_a_difference_is_said_with_its_place(
    path: tuple[str | int, ...], value: Any, said: str, forgiven: tuple[bool, bool]
) -> None:
    found = changed(path, value)
    (sentence,) = differences(RECORDED, found, SAME)
    assert said in sentence
    assert tuple(not list(differences(RECORDED, found, allowed)) for allowed in (LAST_DIGITS, ROUNDED)) == forgiven
