"""The page of a run that goes on: what is served, to whom, and how often it is made."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedct_flwr.report.live import Feed, LiveServer, live
from fedct_flwr.runs.run_folder import RunFolder
from tests.patience import PATIENCE
from tests.report.folders import add_round, begin


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = begin(tmp_path / "run")
    add_round(folder, 1)
    return folder


@pytest.fixture
def server(folder: RunFolder) -> Iterator[LiveServer]:
    with live(folder.path) as server:
        yield server


def ask(server: LiveServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    named = {"Host": f"127.0.0.1:{server.server_port}"} | {key.replace("_", "-"): v for key, v in headers.items()}
    connection.request(method, path, headers=named)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def told(feed: Feed) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(feed.data())
    return data


class TestServer:
    def test_listens_on_the_loopback_address_only(self, server: LiveServer):
        assert server.server_address[0] == "127.0.0.1"
        assert server.url == f"http://127.0.0.1:{server.server_port}/"

    def test_the_page_and_what_changes(self, server: LiveServer):
        status, headers, page = ask(server, "/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"<body data-live>" in page
        status, headers, data = ask(server, "/data")
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert "agreement" in json.loads(data)["plots"]

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "0.0.0.0", ""])
    def test_other_names_are_refused(self, server: LiveServer, host: str):
        status, _, content = ask(server, "/data", Host=host)
        assert status == 403
        assert b"plots" not in content

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
    def test_it_is_read_only(self, server: LiveServer, method: str):
        assert ask(server, "/data", method)[0] == 501

    def test_no_other_page_may_look(self, server: LiveServer):
        headers = ask(server, "/data")[1]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers
        assert "Python" not in headers["Server"]


class TestFeed:
    def test_follows_the_run(self, folder: RunFolder):
        feed = Feed(folder.path)
        assert (told(feed)["status"], told(feed)["words"]) == ("unfinished", "round 1 has ended")
        add_round(folder, 2)
        assert told(feed)["words"] == "round 2 has ended"
        folder.finish("completed")
        assert told(feed)["status"] == "completed"

    def test_waits_for_a_folder_that_is_still_to_come(self, tmp_path: Path):
        feed = Feed(tmp_path / "run")
        assert told(feed)["words"] == "has not begun"
        add_round(begin(tmp_path / "run"), 1)
        assert told(feed)["words"] == "round 1 has ended"

    def test_keeps_what_it_knows_where_a_file_is_damaged(self, folder: RunFolder):
        feed = Feed(folder.path)
        before = told(feed)
        with (folder.path / "rounds.jsonl").open("a") as file:
            file.write("damaged\n")
        assert told(feed) == before
