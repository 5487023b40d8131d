"""A silo's side of a session as bytes: for simulations, in which each message may reach another process.

These bytes hold the session's secrets. Real silos keep a session in the memory of one process instead.
"""

import json
from base64 import b64decode, b64encode
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedct_flwr.secure_sum.dealing import Seeds
from fedct_flwr.secure_sum.messages import Member, Step
from fedct_flwr.secure_sum.silo import Session, Sum, Summand
from fedct_flwr.secure_sum.terms import Shape


def to_bytes(summand: Summand) -> bytes:
    """All that a silo remembers between two messages."""
    return json.dumps(
        {"subjects": [_text(subject) for subject in sorted(summand.subjects)], "session": _session(summand.session)}
    ).encode()


def remind(summand: Summand, kept: bytes) -> None:
    """Let a silo remember what ``to_bytes`` wrote."""
    found = json.loads(kept)
    summand.subjects = {_bytes(subject) for subject in found["subjects"]}
    summand.session = _session_of(found["session"])


def _session(session: Session | None) -> dict[str, Any] | None:
    if session is None:
        return None
    seeds, current = session.seeds, session.current
    return {
        "name": _text(session.name),
        "private": _text(session.private.private_bytes_raw()),
        "members": [[member.name, _text(member.public), _text(member.signature)] for member in session.members],
        "roster": _text(session.roster),
        "own": session.own,
        "roots": {place: _text(root) for place, root in session.roots.items()},
        "seeds": seeds and [seeds.number, _text(seeds.self_mask), [_text(share) for share in seeds.own_shares]],
        "current": current and _sum(current),
        "last": session.last,
        "said": [[*place, _text(asked), _text(reply)] for place, (asked, reply) in session.said.items()],
    }


def _sum(current: Sum) -> dict[str, Any]:
    return {
        "number": current.number,
        "shape": _text(current.shape.encode()),
        "name": _text(current.name),
        "summands": current.summands,
        "shares": {place: [_text(share) for share in both] for place, both in current.shares.items()},
        "signed": current.list_signed,
    }


def _session_of(found: dict[str, Any] | None) -> Session | None:
    if found is None:
        return None
    seeds, current = found["seeds"], found["current"]
    return Session(
        _bytes(found["name"]),
        X25519PrivateKey.from_private_bytes(_bytes(found["private"])),
        [Member(name, _bytes(public), _bytes(signature)) for name, public, signature in found["members"]],
        _bytes(found["roster"]),
        found["own"],
        {int(place): _bytes(root) for place, root in found["roots"].items()},
        seeds and Seeds(seeds[0], _bytes(seeds[1]), _two(seeds[2])),
        current
        and Sum(
            current["number"],
            Shape.decode(_bytes(current["shape"])),
            _bytes(current["name"]),
            tuple(current["summands"]),
            {int(place): _two(both) for place, both in current["shares"].items()},
            None if current["signed"] is None else tuple(current["signed"]),
        ),
        found["last"],
        {(Step(step), number): (_bytes(asked), _bytes(reply)) for step, number, asked, reply in found["said"]},
    )


def _two(shares: list[str]) -> tuple[bytes, bytes]:
    first, second = map(_bytes, shares)
    return first, second


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text)
