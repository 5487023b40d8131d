"""What both ends of a silo's link add to Flower's fleet API, so that a round takes two short calls in place of nine.

A message travels with its parts, in a field that Flower does not know and skips. A call for work says how long it may
wait for a question, and a silo that asks to be let in says of which version its software is. One header holds what
Flower puts into seven. The SuperLink offers all that in its answer to
``ActivateNode``; with one that does not, a SuperNode talks as Flower alone does. Needs Flower alone.
"""

import hashlib
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

OFFER_HEADER: Final = "fedct-short"
"""In the SuperLink's answer to a SuperNode that it has let in."""
NODE_HEADER: Final = "fedct-node"
"""In place of Flower's headers with key, time and signature."""
LONG_HEADERS: Final = ("flwr-public-key", "flwr-timestamp", "flwr-signature")
MEDIA_TYPE: Final = "application/protobuf"
MOST_SECONDS: Final = 60
"""The longest that a call may wait for a question."""
MOST_BYTES: Final = 2**20
"""Of all parts that travel with a message. Larger ones follow one by one, as Flower sends them."""
_FRAMING: Final = (b"Message ", b"RecordDict ")
"""How Flower's parts begin that hold no record, but tell which records there are."""
_ZLIB: Final = b"\x78\xda"
_MARK_DIGITS: Final = 16
_VERSION: Final = re.compile(rb"[0-9A-Za-z.+-]{1,32}")
_FIELD: Final = 31_415
_BYTES_FIELD: Final = _FIELD << 3 | 2
_SIZE: Final = 4
_CURVES: Final[Mapping[int, type[ec.EllipticCurve]]] = {33: ec.SECP256R1, 49: ec.SECP384R1, 67: ec.SECP521R1}
"""By the length of a point."""


class Wish(NamedTuple):
    """What a call for work adds: seconds that it may wait, and a ``mark`` of the last message that has arrived."""

    wait: int
    received: str = ""


def mark(message_id: str) -> str:
    """Enough of a message's id to know it by."""
    return message_id[:_MARK_DIGITS]


def attach(message: Message, content: bytes) -> None:
    """Add bytes to a message of Flower's, whose other fields stay.

    >>> from flwr.proto.fleet_pb2 import PullMessagesRequest
    >>> request = PullMessagesRequest()
    >>> attach(request, b"more")
    >>> attached(PullMessagesRequest.FromString(request.SerializeToString()))
    b'more'
    """
    message.MergeFromString(_varint(_BYTES_FIELD) + _varint(len(content)) + content)


def attached(message: Message) -> bytes | None:
    """What was added to a message; None if nothing was."""
    unknown: Any = UnknownFieldSet(message)
    for field in unknown:
        if field.field_number == _FIELD and isinstance(field.data, bytes):
            return field.data
    return None


def write_wish(wish: Wish) -> bytes:
    """As bytes, which ``read_wish`` reads."""
    return f"{wish.wait} {wish.received}".encode()


def read_wish(content: bytes | None) -> Wish | None:
    """The wish; None if this is none.

    >>> read_wish(write_wish(Wish(40, "ab")))
    Wish(wait=40, received='ab')
    """
    if content is None:
        return None
    wait, _, received = content.decode("ascii", "replace").partition(" ")
    if not wait.isdecimal() or len(wait) > len(str(MOST_SECONDS)) or len(received) > _MARK_DIGITS:
        return None
    return Wish(min(int(wait), MOST_SECONDS), received)


def read_version(content: bytes | None) -> str:
    r"""The version of a silo's software, as ``attached`` to its call; empty if that is none.

    >>> read_version(b"0.1.0"), read_version(b"\x1b[2J")
    ('0.1.0', '')
    """
    return content.decode() if content and _VERSION.fullmatch(content) else ""


def pack_parts(parts: Iterable[bytes]) -> bytes | None:
    """All parts of a message; None if they are too large to travel with it.

    Only what stands around labels and numbers is compressed. Whoever watches the network sees how many bytes there are,
    and compressed labels are the fewer, the rarer one of them is.
    """
    framing: list[bytes] = []
    records: list[bytes] = []
    for part in parts:
        (framing if part.startswith(_FRAMING) else records).append(len(part).to_bytes(_SIZE, "big") + part)
    around, within = b"".join(framing), b"".join(records)
    if len(around) + len(within) > MOST_BYTES:
        return None
    small, whole = (zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS) for level in (9, 0))
    packed = small.compress(around) + small.flush(zlib.Z_SYNC_FLUSH) + whole.compress(within) + whole.flush()
    # One stream of zlib's (RFC 1950), which every version unpacks.
    return _ZLIB + packed + zlib.adler32(around + within).to_bytes(4, "big")


def unpack_parts(content: bytes) -> dict[str, bytes]:
    """Parts by their ids, which are their SHA-256. Raises ValueError for what ``pack_parts`` has not made.

    >>> [content for content in unpack_parts(pack_parts([b"one", b""])).values()]
    [b'one', b'']
    """
    unpacking = zlib.decompressobj()
    try:
        joined = unpacking.decompress(content, MOST_BYTES + 1)
    except zlib.error:
        raise ValueError("no parts of a message") from None
    if len(joined) > MOST_BYTES or not unpacking.eof or unpacking.unused_data:
        raise ValueError("parts of a message without end")
    parts, place = {}, 0
    while place < len(joined):
        start = place + _SIZE
        place = start + int.from_bytes(joined[place:start], "big")
        part = joined[start:place]
        if start > len(joined) or place > len(joined):
            raise ValueError("a part of a message is broken off")
        parts[hashlib.sha256(part).hexdigest()] = part
    return parts


def short_header(headers: Mapping[str, str]) -> str | None:
    """One header's value in place of ``LONG_HEADERS``; None if these are not all there, or the key is an odd one."""
    key, time, signature = (headers.get(name, "") for name in LONG_HEADERS)
    try:
        public = load_pem_public_key(b64decode(key))
    except ValueError:
        return None
    if not isinstance(public, ec.EllipticCurvePublicKey) or not time or not signature:
        return None
    point = public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    short = f"{b64encode(point).decode()} {time} {signature}"
    return short if long_headers(short).get(LONG_HEADERS[0]) == key else None


def long_headers(short: str) -> dict[str, str]:
    """Flower's headers of one; none if it makes no sense. Nothing is believed of it that Flower does not check."""
    words = short.split(" ")
    if len(words) != len(LONG_HEADERS):
        return {}
    try:
        point = b64decode(words[0], validate=True)
        public = ec.EllipticCurvePublicKey.from_encoded_point(_CURVES[len(point)](), point)
    except (ValueError, KeyError):
        return {}
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return dict(zip(LONG_HEADERS, (b64encode(pem).decode(), *words[1:]), strict=True))


def part_ids(tree: Any) -> list[str]:
    """Ids of a message's parts, each once, from Flower's tree of them."""
    found, waiting = dict[str, None](), [tree]
    while waiting:
        node = waiting.pop()
        found[node.object_id] = None
        waiting.extend(node.children)
    return list(found)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))
