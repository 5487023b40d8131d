"""The SuperNode's process: it shows a client certificate, follows no redirection, and ends when its work does."""

import ssl
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.certificates import create_authority, create_client_certificate, create_server_certificate
from fedct_flwr.flower.supernode import RETURNED, SETTINGS_CODE, follow_nothing
from tests.cli.silos import tls_server
from tests.patience import PATIENCE
from tests.processes.deployment import free_port


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two authorities, a server and a client."""
    for name in ("ca", "clients"):
        create_authority(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
    authority = (tmp_path / "ca.crt", tmp_path / "ca.key")
    create_server_certificate(tmp_path / "server.pem", tmp_path / "server.key", ["localhost"], *authority)
    authority = (tmp_path / "clients.crt", tmp_path / "clients.key")
    create_client_certificate(tmp_path / "client.crt", tmp_path / "client.key", "zurich", *authority)
    return tmp_path


def run(*arguments: str | Path | int) -> subprocess.CompletedProcess[str]:
    """The launcher as silos run it."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "fedct_flwr.flower.supernode", *map(str, arguments)],
        capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_a_supernode_shows_the_certificate(files: Path) -> None:
    shown: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        subject = dict(part[0] for part in handler.connection.getpeercert()["subject"])  # type: ignore[attr-defined]
        shown.append(str(subject["commonName"]))
        handler.send_response_only(400)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "server.pem", files / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(files / "clients.crt")
    with tls_server(context, answer) as port:
        done = run(
            "--client-certificate", files / "client.crt", "--client-key", files / "client.key",
            "--superlink", f"localhost:{port}", "--root-certificates", files / "ca.crt", "--isolation", "process",
            "--host", "127.0.0.1", "--port", free_port(), "--max-retries", "0",
        )  # fmt: skip
    assert shown == ["zurich"], done.stdout + done.stderr
    assert done.returncode != 0


def test_files_that_are_no_pair_are_one_sentence(files: Path, wording: SnapshotAssertion) -> None:
    done = run("--client-certificate", files / "client.crt", "--client-key", files / "server.key")
    assert done.returncode == SETTINGS_CODE
    assert done.stderr.partition(" (")[0] == wording
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("end", ["return", "raise OSError('of its own')"])
def test_a_supernode_whose_work_ends_leaves_no_process_that_calls_nobody(end: str) -> None:
    """Flower's thread that serves the agent is there and would keep it."""
    code = f"""
import threading
from types import SimpleNamespace
from fedct_flwr.flower import supernode

def work():
    threading.Thread(target=threading.Event().wait).start()
    {end}

supernode.entry_points = lambda **_: [SimpleNamespace(load=lambda: work)]
supernode.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == RETURNED
    assert done.stderr.endswith("the SuperNode's work has ended without a signal\n")
    assert ("of its own" in done.stderr) is ("raise" in end)


def test_it_follows_no_redirection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpx.Client, "send", httpx.Client.send)
    follow_nothing()
    away = httpx.MockTransport(lambda _: httpx.Response(307, headers={"location": "http://in.the.house/"}))
    with httpx.Client(transport=away, follow_redirects=True) as client:
        assert client.post("https://coordinator.example").status_code == 307
