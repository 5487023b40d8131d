"""The coordinator's certificates: TLS as silos speak it takes them, and nothing that another authority has signed."""

import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli import certificates
from fedct_flwr.cli.certificates import (
    AUTHORITY_LIFETIME,
    RENEW_BEFORE,
    SERVER_LIFETIME,
    create_authority,
    create_server_certificate,
    is_good_for,
    load_certificate,
)
from fedct_flwr.types import ConfigError
from tests.patience import PATIENCE

HOSTS = ["superlink", "gateway.example.org", "127.0.0.1", "::1"]


@dataclass(frozen=True)
class Files:
    """An authority and a server, in a folder of their own."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def server(self) -> Path:
        return self.folder / "server.pem"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"


def make(folder: Path, hosts: list[str] = HOSTS) -> Files:
    folder.mkdir()
    files = Files(folder)
    create_authority(files.ca, files.ca_key)
    create_server_certificate(files.server, files.server_key, hosts, files.ca, files.ca_key)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make(tmp_path_factory.mktemp("certificates") / "ours")


@contextmanager
def server(files: Files) -> Iterator[int]:
    """Shows its certificate to one caller; gives the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server, files.server_key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            raw, _ = listener.accept()
            with raw:
                try:
                    with context.wrap_socket(raw, server_side=True) as encrypted:
                        encrypted.recv(1)
                except (ssl.SSLError, OSError):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(PATIENCE)


def call(port: int, host: str, authority: Path) -> None:
    """Speak TLS as strictly as Python can. Raises ssl.SSLError."""
    context = ssl.create_default_context(cafile=str(authority))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as raw,
        context.wrap_socket(raw, server_hostname=host) as encrypted,
    ):
        encrypted.send(b"x")


@pytest.mark.parametrize("host", HOSTS)
def test_a_server_is_believed_under_every_name_that_it_was_made_for(files: Files, host: str) -> None:
    with server(files) as port:
        call(port, host, files.ca)


@pytest.mark.parametrize("host", ["superlink2", "127.0.0.2", "example.org"])
def test_a_server_is_not_believed_under_another_name(files: Files, host: str) -> None:
    with server(files) as port, pytest.raises(ssl.SSLCertVerificationError):
        call(port, host, files.ca)


def test_a_server_of_another_authority_is_not_believed(files: Files, tmp_path: Path) -> None:
    other = make(tmp_path / "other")
    with server(other) as port, pytest.raises(ssl.SSLCertVerificationError):
        call(port, "superlink", files.ca)


def test_keys_are_their_owners_alone_and_certificates_are_for_all(files: Files) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.folder.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "server.pem": 0o644, "server.key": 0o600}


@pytest.mark.parametrize(("name", "lifetime"), [("ca.crt", AUTHORITY_LIFETIME), ("server.pem", SERVER_LIFETIME)])
def test_certificates_are_valid_from_before_now_until_their_time_is_up(
    files: Files, name: str, lifetime: timedelta
) -> None:
    certificate, now = load_certificate(files.folder / name), datetime.now(UTC)
    assert now - timedelta(hours=2) < certificate.not_valid_before_utc < now
    assert abs(certificate.not_valid_after_utc - now - lifetime) < timedelta(minutes=10)


def test_the_servers_certificate_signs_nothing(files: Files) -> None:
    certificate = load_certificate(files.server)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_a_certificate_is_good_for_its_hosts_and_no_others(files: Files) -> None:
    assert is_good_for(files.server, HOSTS, files.ca)
    assert is_good_for(files.server, HOSTS[:1], files.ca)
    assert not is_good_for(files.server, [*HOSTS, "another"], files.ca)


def test_a_certificate_of_another_authority_is_not_good(files: Files, tmp_path: Path) -> None:
    assert not is_good_for(files.server, HOSTS, make(tmp_path / "other").ca)


def test_a_certificate_that_is_about_to_expire_is_not_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "SERVER_LIFETIME", RENEW_BEFORE - timedelta(days=1))
    files = make(tmp_path / "late")
    assert not is_good_for(files.server, HOSTS, files.ca)


@pytest.mark.parametrize("host", ["https://superlink", "superlink:8000", "a b", "", "müller.de", "-.x/"])
def test_what_is_no_host_is_named(files: Files, tmp_path: Path, host: str, wording: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        create_server_certificate(tmp_path / "s.pem", tmp_path / "s.key", [host], files.ca, files.ca_key)
    assert str(caught.value) == wording
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_certificate_is_named(files: Files, tmp_path: Path, wording: SnapshotAssertion) -> None:
    (tmp_path / "ca.crt").write_text("nothing")
    with pytest.raises(ConfigError, match=r"ca\.crt holds no certificate in PEM"):
        is_good_for(files.server, HOSTS, tmp_path / "ca.crt")
    with pytest.raises(ConfigError) as caught:
        load_certificate(tmp_path / "gone.crt")
    assert str(caught.value) == wording


def test_an_authority_without_its_key_signs_nothing(files: Files, tmp_path: Path, wording: SnapshotAssertion) -> None:
    (tmp_path / "ca.key").write_text("nothing")
    for key in (tmp_path / "ca.key", tmp_path / "gone.key"):
        with pytest.raises(ConfigError) as caught:
            create_server_certificate(tmp_path / "s.pem", tmp_path / "s.key", HOSTS, files.ca, key)
        assert str(caught.value) == wording
