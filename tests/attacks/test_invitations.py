"""An invitation of a stranger: nothing of it is unpacked, printed as if we said it, or ends in a traceback."""

# ruff: noqa: F811

import random
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedct_flwr.cli.invitation import CERTIFICATES, Invitation, opened_invitation, write_invitation
from fedct_flwr.types import ConfigError
from tests.cli.conftest import fedct, here  # noqa: F401 - fixtures, which tests name as arguments
from tests.cli.silos import Fedct

NEVER = datetime(2999, 1, 1, tzinfo=UTC)
SAID = Invitation(silo="zurich", study="heart", superlink="fl.example.org:8443", expires=NEVER)
FORGED = "Its fingerprint: 1111-2222-3333-4444-5555-6666-7777-8888"


def made(folder: Path, said: Invitation = SAID, names: tuple[str, ...] = (*CERTIFICATES, "study/study.toml")) -> Path:
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


@pytest.mark.parametrize(
    "text",
    [
        f"heart\u00a0{' ' * 60}{FORGED}",
        f"heart\u2028{FORGED}",
        f"heart\r\n{FORGED}",
        "heart.Its-fingerprint:1111-2222-3333-4444",
    ],
)
@pytest.mark.parametrize("field", ["silo", "study", "superlink"])
def test_no_field_reads_like_the_line_with_the_fingerprint(fedct: Fedct, tmp_path: Path, field: str, text: str) -> None:
    said = SAID.model_copy(update={field: f"{text}:8443" if field == "superlink" else text})
    done = fedct("silo", "join", made(tmp_path, said), tmp_path / "silo", "--label", "ill")
    assert done.code == ConfigError.exit_code
    assert done.out == ""
    assert done.sentence.startswith(f"{field} = ")
    assert not (tmp_path / "silo").exists()


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "room"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_nothing_is_unpacked_before_the_fingerprint_was_compared(tmp_path: Path, room: Path) -> None:
    """Anybody signs with a key of their own, and a few megabytes may unpack to more than the disk holds."""

    def declined(said: Invitation) -> None:
        assert [path for path in room.rglob("*") if path.is_file()] == []
        raise ConfigError("another fingerprint")

    assert refused(made(tmp_path), declined) == "another fingerprint"
    assert list(room.iterdir()) == []


def test_what_unpacks_to_more_than_there_is_room_for_is_not_unpacked(
    tmp_path: Path, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 3_999}))
    assert "4,000 bytes" in refused(path)
    assert list(room.iterdir()) == []


INVITED = (*CERTIFICATES, "study/study.toml")
WRONG: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
    ({"expires": datetime(2020, 1, 1, tzinfo=UTC)}, INVITED, "expired on"),
    *(
        ({}, (*INVITED, name), "belongs in no invitation")
        for name in ("compose.yaml", "study/../../x", "/x", "study\\x")
    ),
    *(({}, tuple(name for name in INVITED if name != lacks), f"lacks {lacks}") for lacks in CERTIFICATES),
    *(
        ({"superlink": address}, INVITED, "superlink = ")
        for address in ("host", "host:0", "host:65536", "a b:1", "-x:1", "[::1%a b]:1", "a/b:1", "$(x):1")
    ),
]


@pytest.mark.parametrize(("changes", "names", "said"), WRONG)
def test_what_is_no_invitation_for_today_is_refused(
    tmp_path: Path, changes: dict[str, Any], names: tuple[str, ...], said: str
) -> None:
    assert said in refused(made(tmp_path, SAID.model_copy(update=changes), names))


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
