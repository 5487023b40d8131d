"""What travels in the short form is what went in, and what somebody else made up is refused."""

import zlib
from base64 import b64encode

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.hospital.short_form import (
    LONG_HEADERS,
    MOST_BYTES,
    MOST_SECONDS,
    Wish,
    attach,
    attached,
    long_headers,
    pack_parts,
    part_ids,
    read_wish,
    short_header,
    unpack_parts,
    write_wish,
)
from fedct_flwr.wire.messages import to_record
from fedct_flwr.wire.packing import pack


def of_key(public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> dict[str, str]:
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return dict(zip(LONG_HEADERS, (b64encode(pem).decode(), "2027-01-01T00:00:00+00:00", "c2ln"), strict=True))


@pytest.mark.parametrize("curve", [ec.SECP256R1, ec.SECP384R1, ec.SECP521R1])
def test_one_header_says_what_three_say(curve: type[ec.EllipticCurve]) -> None:
    long = of_key(ec.generate_private_key(curve()).public_key())
    short = short_header(long)
    assert short is not None
    assert long_headers(short) == long
    assert len(short) < sum(map(len, long.values())) / 1.5


def test_keys_of_another_kind_stay_in_flowers_headers() -> None:
    assert short_header(of_key(ec.generate_private_key(ec.SECP256K1()).public_key())) is None
    assert short_header(of_key(rsa.generate_private_key(65537, 2048).public_key())) is None
    assert short_header({}) is None


@pytest.mark.parametrize("short", ["", "a b c", "AAAA 1 2", "é b c", f"{'A' * 44} 1 2", "a b c d"])
def test_a_header_without_sense_is_none(short: str) -> None:
    assert long_headers(short) == {}


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_parts_come_out_as_they_went_in(parts: list[bytes]) -> None:
    packed = pack_parts(parts)
    assert packed is not None
    assert set(unpack_parts(packed).values()) == set(parts)


def parts_of(share: float) -> list[bytes]:
    """Of an answer with 5,000 labels, of which so many are the second class's."""
    labels = (np.random.default_rng(0).random(5000) < share).astype(np.int16)
    return [part.deflate() for part in get_all_nested_objects(to_record(pack(labels, 2)[0])).values()]


def test_bytes_on_the_network_do_not_tell_how_often_a_label_is_given() -> None:
    packed = {share: pack_parts(parts_of(share)) or b"" for share in (0.0, 0.01, 0.05, 0.2, 0.5)}
    sizes = [len(content) for content in packed.values()]
    # The parts' names are random digits, of which some can be compressed more than others.
    assert max(sizes) - min(sizes) <= 8
    for share, content in packed.items():
        assert set(unpack_parts(content).values()) == set(parts_of(share))
        assert len(content) < sum(map(len, parts_of(share))) - 20
        # An earlier version unpacks it, too.
        assert zlib.decompress(content)


@given(st.binary(max_size=200))
def test_what_is_no_parts_is_refused_or_has_ids_of_its_own(content: bytes) -> None:
    for packed in (content, zlib.compress(content)):
        try:
            found = unpack_parts(packed)
        except ValueError:
            continue
        assert all(len(name) == 64 for name in found)


def test_parts_without_end_are_refused_before_they_fill_the_memory() -> None:
    assert pack_parts([bytes(MOST_BYTES)]) is None
    with pytest.raises(ValueError, match="end"):
        unpack_parts(zlib.compress(bytes(64 * MOST_BYTES)))
    with pytest.raises(ValueError, match="broken off"):
        unpack_parts(zlib.compress((9).to_bytes(4, "big") + b"four"))
    whole = pack_parts([b"part"])
    assert whole is not None
    for broken in (whole[:-1], whole + b"more"):
        with pytest.raises(ValueError, match="end"):
            unpack_parts(broken)


def test_a_message_of_flowers_is_otherwise_as_it_was() -> None:
    request = PullMessagesRequest(node=Node(node_id=7))
    assert attached(request) is None
    attach(request, write_wish(Wish(40, "0123456789abcdef")))
    received = PullMessagesRequest.FromString(request.SerializeToString(deterministic=True))
    assert received.node.node_id == 7
    assert read_wish(attached(received)) == Wish(40, "0123456789abcdef")


@pytest.mark.parametrize("content", [None, b"", b"x", b"-1 a", b"999 a", b"1 " + b"a" * 17, b"\xff"])
def test_what_is_no_wish_is_none(content: bytes | None) -> None:
    assert read_wish(content) is None


def test_nobody_waits_for_ever() -> None:
    assert read_wish(b"99 ") == Wish(MOST_SECONDS)


def test_each_part_is_named_once() -> None:
    twice = ObjectTree(object_id="c")
    tree = ObjectTree(object_id="a", children=[ObjectTree(object_id="b", children=[twice]), twice])
    assert sorted(part_ids(tree)) == ["a", "b", "c"]
