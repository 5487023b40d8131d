"""Print the size of the source tree; with ``--check``, fail where it exceeds ``.ci/budget.toml``.

With ``--docstrings`` it prints 20 docstrings of the package, drawn by the commit, for a reader new to the code.

Lines of Python, generated code apart. ``budget.toml`` has one number for each folder of the package, and for the tests
and benchmarks; the longest name that a file's path begins with counts it. For some imports it has the number of modules
of ours that they load, and their lines. A number may only go down: where a sum rises, the commit's message has a line
``Budget: REASON`` that says what went for it.
"""

import ast
import random
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fedct_flwr"
LOADED = """
import sys
from importlib import import_module
import_module(sys.argv[1])
ours = [m for name, m in sys.modules.items() if name.split(".")[0] in ("fedct_flwr", "client_app", "server_app")]
print(len(ours), sum(open(m.__file__, "rb").read().count(b"\\n") for m in ours if m.__file__))
"""
"""A program that prints how many modules of ours an import loads, and their lines."""
PUBLIC_FLOWER = ("flwr.app", "flwr.serverapp", "flwr.clientapp", "flwr.serverapp.strategy")
STILTED = ("nobody", "so many", "anew", "whoever", "somebody", "beside", "in place of")


def sources(folder: Path) -> list[Path]:
    """Python files below ``folder``, without generated ones."""
    return sorted(path for path in folder.rglob("*.py") if not path.name.endswith("_pb2.py"))


def lines(paths: list[Path]) -> int:
    """Lines of all files together."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def by_folder(names: list[str]) -> Counter[str]:
    """Lines of the package by the longest of ``names`` that leads to a file; "." has the rest."""
    sizes: Counter[str] = Counter()
    for path in sources(PACKAGE):
        own = path.relative_to(PACKAGE).as_posix()
        fitting = [name for name in names if own.startswith(f"{name}/")]
        sizes[max(fitting, key=len, default=".")] += lines([path])
    return sizes


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Modules that a file imports, by statement or by ``import_module``, and the names it binds them to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, each.asname or each.name.split(".")[0]) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, each.asname or each.name) for each in node.names)
            yield from ((f"{node.module}.{each.name}", each.asname or each.name) for each in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            named = [text for text in literals(node.value) if text.startswith("flwr.")]
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield from ((name, root(target)) for name in named)


def literals(node: ast.AST) -> Iterator[str]:
    """Arguments of the calls of ``import_module`` in an expression."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and ast.unparse(each.func).endswith("import_module"):
            yield from (part.value for part in each.args if isinstance(part, ast.Constant))


def root(node: ast.AST) -> str:
    """The name that an attribute belongs to."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def replacements(tree: ast.AST) -> int:
    """Places of a file that give Flower's modules and objects other attributes.

    ``TaskIdentity`` holds values that Flower asks every process to set.
    """
    bound = {name for module, name in imported(tree) if module.split(".")[0] == "flwr" and module not in PUBLIC_FLOWER}
    if not bound:
        return 0
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            found += root(node.args[0]) not in ("self", "cls", "")
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and root(target) not in ("self", "cls", "", "TaskIdentity"):
                found += root(target) in bound or target.attr.startswith("_")
    return found


def loaded(name: str) -> tuple[int, int]:
    """Modules of ours that an import loads, and their lines."""
    python = ROOT / ".venv" / "bin" / "python"
    command = [python if python.exists() else sys.executable, "-c", LOADED, name]
    modules, size = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return int(modules), int(size)


def facts() -> dict[str, int]:
    """Further figures of the package."""
    paths = sources(PACKAGE)
    importers: Counter[str] = Counter()
    private: set[str] = set()
    replaced = 0
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    for path in (*paths, *sources(ROOT / "server_app"), *sources(ROOT / "client_app")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {name for name, _ in imported(tree)}
        importers.update(names & modules.keys())
        private |= {
            name
            for node in ast.walk(tree)
            for name in (
                [node.module] if isinstance(node, ast.ImportFrom) and node.module
                else [each.name for each in node.names] if isinstance(node, ast.Import)
                else [*literals(node)] if isinstance(node, ast.Call) else []
            )
            if name.split(".")[0] == "flwr" and name not in PUBLIC_FLOWER
        }  # fmt: skip
        replaced += replacements(tree)
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths).lower()
    return {
        "files": len(paths),
        "files of one importer": sum(1 for name in modules if importers[name] == 1),
        "private modules of Flower": len(private),
        "places that replace Flower's code": replaced,
        "stilted phrases": sum(len(re.findall(rf"\b{phrase}\b", text)) for phrase in STILTED),
    }


def stale() -> list[str]:
    """Results older than the last change of the code that they measure, as far as a file imports it; one line each.

    The commit is the one that a file names, else the one that wrote it.
    """
    trees = ("benchmarks", "fedct_flwr", "client_app", "server_app")
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for tree in trees for path in sources(ROOT / tree)
    }
    declared = experiments()
    times, changed = history(trees)
    needs: dict[str, set[str]] = {}

    def direct(module: str) -> set[str]:
        if module not in needs:
            names = {name for name, _ in imported(ast.parse(modules[module].read_text(encoding="utf-8")))}
            needs[module] = names & modules.keys()
        return needs[module]

    found = []
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.md")):
        named = re.search(
            r"python -m benchmarks ([\w-]+).*?(?:commit ([0-9a-f]{7,}).*)?$", path.read_text("utf-8"), re.MULTILINE
        )
        if named is None or path.stem in ("README", "papers"):
            continue
        if (own := declared.get(named[1])) is None:
            found.append(f"{path.stem}: its script is in the history")
            continue
        seen, left = set[str](), [f"benchmarks.{own}"]
        while left:
            seen.add(module := left.pop())
            left += direct(module) - seen - {*left}
        measured = next((time for commit, time in times.items() if named[2] and commit.startswith(named[2])), None)
        measured = measured or changed.get(path.relative_to(ROOT).as_posix(), 0)
        files = [*(modules[name].relative_to(ROOT).as_posix() for name in seen), f"benchmarks/{own}.toml"]
        newer = [name for name in files if changed.get(name, 0) > measured]
        if newer:
            found.append(f"{path.stem}: {len(newer)} of {len(seen)} files changed since {named[2] or 'it was written'}")
    return found


def experiments() -> dict[str, str]:
    """The module of each experiment, as ``TABLES`` of the benchmarks' command names them."""
    tree = ast.parse((ROOT / "benchmarks" / "__main__.py").read_text(encoding="utf-8"))
    tables = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and node.value and ast.unparse(node.target) == "TABLES"
    )
    return {name: module for module, names in ast.literal_eval(tables).items() for name in names}


def history(trees: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """When each commit was made, and when each file of these trees last changed, in seconds."""
    times, changed, time = dict[str, int](), dict[str, int](), 0
    for line in git("log", "--format=commit %H %ct", "--name-only", "--", *trees).stdout.splitlines():
        if line.startswith("commit "):
            _, commit, made = line.split()
            times[commit] = time = int(made)
        elif line:
            changed.setdefault(line, time)
    return times, changed


def docstrings() -> list[str]:
    """Docstrings of the package drawn by the commit, each with its file and its definition's first line."""
    found = []
    for path in sources(PACKAGE):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and (said := ast.get_docstring(node)):
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                found.append(f"{where}\n{text.splitlines()[node.lineno - 1].strip()}\n{said}\n")
    return random.Random(git("rev-parse", "HEAD").stdout.strip()).sample(found, 20)  # noqa: S311


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in the tree."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)  # noqa: S607


def budget(revision: str = "") -> dict[str, dict[str, int]]:
    """The budget of the tree, or of a revision; empty where that has none."""
    path = ROOT / ".ci" / "budget.toml"
    if not revision:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    shown = git("show", f"{revision}:.ci/budget.toml")
    return tomllib.loads(shown.stdout) if shown.returncode == 0 else {}


def total(numbers: dict[str, dict[str, int]], part: str) -> int:
    """All lines that a budget allows ``package`` or ``trees``."""
    return sum(numbers.get(part, {}).values())


def raised(now: dict[str, dict[str, int]]) -> list[str]:
    """Parts whose budget the last commit, or the tree, has raised without saying why."""
    message = git("log", "-1", "--format=%B").stdout
    explained = re.search(r"^Budget: .", message, re.MULTILINE) is not None
    found = []
    for revision, excused in (("HEAD", False), ("HEAD~1", explained)):
        before = budget(revision)
        found += [part for part in before if total(now, part) > total(before, part) and not excused]
    return sorted({*found})


def main(arguments: list[str]) -> int:
    """The exit code: 1 where the tree exceeds its budget, or the budget has grown."""
    if "--docstrings" in arguments:
        print("\n".join(docstrings()))
        return 0
    numbers = budget()
    sizes = by_folder([*numbers["package"]])
    rows = [
        (f"fedct_flwr/{name}" if name != "." else "fedct_flwr (the rest)", sizes[name], most)
        for name, most in numbers["package"].items()
    ]
    rows += [(name, lines(sources(ROOT / name)), most) for name, most in numbers["trees"].items()]
    imports = {name: loaded(name) for name in numbers["loaded"]}
    for which, part in enumerate(("loaded", "loaded-lines")):
        rows += [(f"{part} by {name}", imports[name][which], most) for name, most in numbers[part].items()]
    over = [row for row in rows if row[1] > row[2]]
    if "--check" not in arguments:
        print(f"{'lines of Python':<44}{'today':>8}{'budget':>8}")
        for name, today, most in rows:
            print(f"{name:<44}{today:>8}{most:>8}")
        print(f"{'the package':<44}{sum(sizes.values()):>8}{total(numbers, 'package'):>8}")
        for name, number in facts().items():
            print(f"{name:<44}{number:>8}")
        print("\nresults older than the code that they measure:")
        for line in stale():
            print(f"  {line}")
    for name, today, most in over:
        print(f"{name}: {today}, and its budget is {most}: delete something (.ci/budget.toml)", file=sys.stderr)
    grown = raised(numbers)
    for part in grown:
        print(f"the budget of {part!r} has grown: say why in the commit, in a line 'Budget: REASON'", file=sys.stderr)
    return 1 if over or grown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
