"""The page of a silo: who gets it, what is on it, and how it looks in a real browser, light and dark."""

import http.client
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.silo.page import PageServer, document, serve
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.types import ConfigError
from tests.cli.silos import Kit
from tests.patience import PATIENCE

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


@contextmanager
def served(kit: Kit) -> Iterator[PageServer]:
    with serve(kit.file) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server: PageServer, path: str, host: str = "", method: str = "GET") -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{server.server_port}"})
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def filled(kit: Kit) -> Kit:
    with kit.log() as log:
        log.append(kit.released(1, 228, 50))
        log.append(LogEntry(Event.REFUSED, bytes=12, reason="LIMIT"))
    return kit


def test_the_page_tells_status_what_left_and_limits(filled: Kit, wording: SnapshotAssertion) -> None:
    text = document(filled.config)
    for said in ("Silo cleveland", "not approved, so nothing leaves", "228", "62", "10,000,000"):
        assert said in text
    assert re.findall(r"<h2>(.*?)</h2>", text) == wording
    assert "<script" not in text


def test_no_name_or_reason_becomes_a_part_of_the_page(filled: Kit) -> None:
    with filled.log() as log:
        log.append(LogEntry(Event.REFUSED, reason="<b onclick='x'>"))
    text = document(filled.config)
    assert "<b onclick" not in text
    assert "&lt;b onclick=&#x27;x&#x27;&gt;" in text


def test_only_the_whole_address_is_answered(filled: Kit) -> None:
    with served(filled) as server:
        path = f"/{server.token}/"
        status, headers, text = ask(server, path)
        assert (status, "Silo cleveland" in text) == (200, True)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        for other in ("/", path[:-1], f"{path}more", f"/{'x' * len(server.token)}/", f"{path}?a", "//", "/%2e/"):
            assert ask(server, other)[0] == 404
        # A name of another site that was made to lead here.
        for host in ("rebound.example", f"rebound.example:{server.server_port}", f"localhost:{server.server_port}"):
            status, _, text = ask(server, path, host)
            assert (status, "cleveland" in text) == (404, False)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_it_changes_nothing(filled: Kit, method: str) -> None:
    before = {path: path.read_bytes() for path in filled.folder.rglob("*") if path.is_file()}
    with served(filled) as server:
        assert ask(server, f"/{server.token}/", method=method)[0] == 501
        ask(server, f"/{server.token}/")
    assert {path: path.read_bytes() for path in filled.folder.rglob("*") if path.is_file()} == before


def test_it_listens_at_the_loopback_address_alone_with_a_new_token_each_time(filled: Kit) -> None:
    with served(filled) as server, served(filled) as another:
        assert server.server_address[0] == "127.0.0.1"
        assert server.token != another.token
        assert len(server.token) >= 43
        assert server.address == f"http://127.0.0.1:{server.server_port}/{server.token}/"
        with pytest.raises(ConfigError, match="choose another --port"):
            serve(filled.file, server.server_port)


def test_a_folder_that_cannot_be_read_is_one_sentence(filled: Kit, wording: SnapshotAssertion) -> None:
    with served(filled) as server:
        filled.file.write_text("no settings at all", "utf-8")
        status, _, text = ask(server, f"/{server.token}/")
        assert status == 500
        assert text == wording


def test_a_caller_who_says_nothing_keeps_nobody_waiting(filled: Kit) -> None:
    with served(filled) as server, socket.create_connection(("127.0.0.1", server.server_port)):
        assert ask(server, f"/{server.token}/")[0] == 200


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: install chromium-headless-shell")
def test_a_browser_shows_it_light_and_dark(filled: Kit, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    with served(filled) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=1000 * PATIENCE)
        backgrounds = {}
        for scheme in ("light", "dark"):
            shown = browser.new_page(color_scheme=scheme, viewport={"width": 390, "height": 844})  # type: ignore[arg-type]
            said: list[str] = []
            shown.on("console", lambda message, said=said: said.append(message.text))
            shown.goto(server.address)
            shown.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
            assert shown.get_by_role("heading", name="Silo cleveland").is_visible()
            assert shown.get_by_text("228").first.is_visible()
            # No wider than a telephone, and nothing that the policy of contents forbids.
            assert shown.evaluate("document.documentElement.scrollWidth") <= 390
            assert said == []
            backgrounds[scheme] = shown.evaluate("getComputedStyle(document.body).backgroundColor")
            shown.close()
        browser.close()
    assert backgrounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}
