"""An invitation of a stranger: nothing of it is unpacked, printed as if we said it, or ends in a traceback."""

# ruff: noqa: F811

import random
import struct
import tempfile
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedct_flwr.cli.invitation import Invitation, opened_invitation, write_invitation
from fedct_flwr.types import ConfigError
from tests.cli.conftest import fedct, here  # noqa: F401 - fixtures, which tests name as arguments
from tests.cli.silos import Fedct

SAID = Invitation("zurich", "heart", "fl.example.org:8443", datetime.now(UTC) + timedelta(days=1))
KIT = ("kit.toml", "ca.crt", "client.crt", "client.key")
FORGED = "Its fingerprint: 1111-2222-3333-4444-5555-6666-7777-8888"


def made(folder: Path, said: Invitation = SAID, names: tuple[str, ...] = (*KIT, "study/study.toml")) -> Path:
    """An invitation with these files, signed by anybody."""
    content = folder / "content"
    content.write_bytes(b"0123456789" * 100)
    path = folder / "zurich.zip"
    write_invitation(path, said, dict.fromkeys(names, content), Ed25519PrivateKey.generate())
    return path


def taken(said: Invitation) -> None:
    """Any fingerprint is the right one."""


def refused(path: Path, check: Callable[[Invitation], None] = taken) -> str:
    with pytest.raises(ConfigError) as found, opened_invitation(path, check):
        pass
    assert "\n" not in str(found.value)
    return str(found.value)


def repacked(path: Path, method: int, change: Mapping[str, bytes] | None = None) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in {**parts, **(change or {})}.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "text",
    [
        f"heart\u00a0{' ' * 60}{FORGED}",
        "heart" + "\u3000" * 40 + FORGED,
        f"heart\u2028{FORGED}",
        f"heart\u2800\u2800{FORGED}",
        f"heart\r\n{FORGED}",
        "heart.Its-fingerprint:1111-2222-3333-4444",
    ],
)
@pytest.mark.parametrize("field", ["silo", "study", "superlink"])
def test_no_field_reads_like_the_line_with_the_fingerprint(fedct: Fedct, tmp_path: Path, field: str, text: str) -> None:
    said = replace(SAID, **{field: f"{text}:8443" if field == "superlink" else text})
    done = fedct("silo", "join", made(tmp_path, said), tmp_path / "silo", "--label", "ill")
    assert done.code == ConfigError.exit_code
    assert done.out == ""
    assert done.sentence.startswith(f"{field} = ")
    assert not (tmp_path / "silo").exists()


@pytest.mark.parametrize("address", ["host", "host:0", "host:65536", "a b:1", "-x:1", "[::1%a b]:1", "a/b:1", "$(x):1"])
def test_an_address_is_a_host_and_a_port(tmp_path: Path, address: str) -> None:
    assert refused(made(tmp_path, replace(SAID, superlink=address))).startswith("superlink = ")


def test_nothing_is_unpacked_before_the_fingerprint_was_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody signs with a key of their own, and a few megabytes may unpack to more than the disk holds."""
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(room))

    def declined(said: Invitation) -> None:
        assert [path for path in room.rglob("*") if path.is_file()] == []
        raise ConfigError("another fingerprint")

    assert refused(made(tmp_path), declined) == "another fingerprint"
    assert list(room.iterdir()) == []


def test_what_unpacks_to_more_than_there_is_room_for_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    path = made(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 4_999}))
    assert "5,000 bytes" in refused(path)
    assert list(room.iterdir()) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("damage", [False, True])
def test_a_member_that_is_packed_as_none_of_ours_is_no_invitation(tmp_path: Path, method: int, damage: bool) -> None:
    path = made(tmp_path)
    repacked(path, method)
    if damage:
        content = bytearray(path.read_bytes())
        content[60:90] = bytes(30)
        path.write_bytes(content)
    assert "is no invitation" in refused(path)


@pytest.mark.parametrize("lacks", KIT)
def test_an_invitation_that_lacks_something_is_refused(tmp_path: Path, lacks: str) -> None:
    names = tuple(name for name in KIT if name != lacks)
    assert f"lacks {lacks}" in refused(made(tmp_path, names=names))


def test_damage_anywhere_is_one_sentence(tmp_path: Path) -> None:
    """300 changes of one to eight bytes, and cuts."""
    path, randomly = made(tmp_path), random.Random(0)
    good = path.read_bytes()
    refusals: list[str] = []
    for _ in range(300):
        content = bytearray(good)
        start = randomly.randrange(len(content))
        for at in range(start, min(start + randomly.choice((1, 1, 2, 8)), len(content))):
            content[at] = randomly.randrange(256)
        path.write_bytes(content[: randomly.choice((len(content), len(content), start))])
        try:
            with opened_invitation(path, taken) as (said, _):
                assert said.silo == "zurich"
        except ConfigError as error:
            refusals.append(str(error))
    assert len(refusals) > 150
    assert not any("\n" in sentence for sentence in refusals)


def test_a_directory_of_a_million_members_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "many.invite"
    # 46 bytes and a name of one: such a directory took 13 s and 470 MB before the signature was looked at.
    entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *[0] * 6, 0, 0, 0, 1, *[0] * 4, 0, 0) + b"a"
    directory = entry * 1_000_000
    path.write_bytes(directory + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), 0, 0))
    tracemalloc.start()
    began = time.process_time()
    assert "is no invitation" in refused(path)
    assert time.process_time() - began < 3
    assert tracemalloc.get_traced_memory()[1] < 150e6
    tracemalloc.stop()
