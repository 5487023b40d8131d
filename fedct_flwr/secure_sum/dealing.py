"""A silo's deal for one sum: shares of the seeds that may be opened if it survives, or if it does not.

Bonawitz et al. 2017 share the long-lived key from which pairwise masks grow: a silo that drops out late would give away
its vectors of earlier sums. Here nothing that outlives a sum is shared: the coordinator keeps the sum's pairwise seeds,
encrypted under a fresh key, of which shares are dealt.
"""

import secrets
from collections.abc import Mapping
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedct_flwr.secure_sum.faults import Fault, SumRefused
from fedct_flwr.secure_sum.masks import derive
from fedct_flwr.secure_sum.messages import TAG_SIZE, Deal
from fedct_flwr.secure_sum.shares import SECRET_SIZE, SHARE_SIZE, as_number, split

_NONCE = bytes(12)  # each key encrypts one message


class Seeds(NamedTuple):
    """A silo's own part of its deal: the seed of its self-mask, and its own share of both secrets."""

    number: int
    self_mask: bytes
    own_shares: tuple[bytes, bytes]


def deal(roots: Mapping[int, bytes], own: int, number: int, quorum: int) -> tuple[Seeds, Deal]:
    """Fresh secrets for the sum ``number``, and what is dealt of them. ``roots``: the secret with each other silo."""
    self_mask, wrapping = secrets.token_bytes(SECRET_SIZE), secrets.token_bytes(SECRET_SIZE)
    members = len(roots) + 1
    shares = list(zip(split(self_mask, quorum, members), split(wrapping, quorum, members), strict=True))
    pair_seeds = b"".join(pair_seed(root, number) for root in roots.values())
    wrapped = _cipher(wrapping, b"wrap", bytes([own])).encrypt(_NONCE, pair_seeds, None)
    sealed = {
        other: _sealing(root, own, other, number).encrypt(_NONCE, b"".join(shares[other]), None)
        for other, root in roots.items()
    }
    return Seeds(number, self_mask, shares[own]), Deal(seed_check(self_mask), wrapped, sealed)


def opened_shares(root: bytes, dealer: int, own: int, number: int, sealed: bytes) -> tuple[bytes, bytes]:
    """The two shares that ``dealer`` dealt: of its self-mask's seed and its wrapping key. Raises SumRefused (SHARE)."""
    try:
        opened = _sealing(root, dealer, own, number).decrypt(_NONCE, sealed, None)
        shares = opened[:SHARE_SIZE], opened[SHARE_SIZE:]
        for share in shares:
            as_number(share)
    except (InvalidTag, SumRefused):
        raise SumRefused(Fault.SHARE, dealer) from None
    return shares


def unwrapped(wrapping: bytes, dealer: int, others: list[int], wrapped: bytes) -> dict[int, bytes]:
    """The seeds of the masks between a dealer and the ``others``, for the coordinator. Raises SumRefused (SPOILED)."""
    try:
        seeds = _cipher(wrapping, b"wrap", bytes([dealer])).decrypt(_NONCE, wrapped, None)
    except InvalidTag:
        raise SumRefused(Fault.SPOILED, dealer) from None
    return {other: seeds[SECRET_SIZE * at : SECRET_SIZE * (at + 1)] for at, other in enumerate(others)}


def pair_seed(root: bytes, number: int) -> bytes:
    """The seed of the mask that two silos share in one sum."""
    return derive(root, b"pair seed", number.to_bytes(4, "big"), size=SECRET_SIZE)


def seed_check(seed: bytes) -> bytes:
    """A check value for a restored seed, which reveals nothing else about it."""
    return derive(seed, b"check", size=SECRET_SIZE)


def tag(root: bytes, sender: int, receiver: int, sum_name: bytes) -> bytes:
    """Tag from ``sender`` to ``receiver``: I have added to this very sum."""
    return derive(root, b"tag", bytes([sender, receiver]), sum_name, size=TAG_SIZE)


def _sealing(root: bytes, sender: int, receiver: int, number: int) -> ChaCha20Poly1305:
    return _cipher(root, b"seal", bytes([sender, receiver]), number.to_bytes(4, "big"))


def _cipher(secret: bytes, *context: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(secret, *context))
