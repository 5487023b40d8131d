"""Pages of the site that are made from the code, pages that lie elsewhere in the repository, and links to files."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

# MkDocs loads this file with its folder in the path.
from commands import commands_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
_GROUPS: Final = {
    "core": ("Core", "fedct_flwr"),
    "algorithms": ("Algorithms", "fedct_flwr/algorithms"),
    "consensus": ("Consensus", "fedct_flwr/consensus"),
    "baselines": ("Baselines", "fedct_flwr/baselines"),
    "learners": ("Learners", "fedct_flwr/learners"),
    "labelers": ("Labelers", "fedct_flwr/labelers"),
    "models": ("Models", "fedct_flwr/models"),
    "privacy": ("Privacy", "fedct_flwr/privacy"),
    "secure_sum": ("Secure sums", "fedct_flwr/secure_sum"),
    "datasets": ("Data sets", "fedct_flwr/datasets"),
    "coordinator": ("At the coordinator", "fedct_flwr/coordinator"),
    "wire": ("Messages", "fedct_flwr/wire"),
    "silo": ("At the silo", "fedct_flwr/silo"),
    "hospital": ("The agent", "fedct_flwr/hospital"),
}
_OPTIONS: Final = """\
      heading_level: 3
      show_if_no_docstring: true
      show_labels: false
      show_root_heading: false
      show_root_toc_entry: false
"""
"""Of every ``:::`` that stands in a page, as those of the settings do."""
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(((?!https?:|mailto:|#)[^)\s]+)\)")
_origins: dict[str, PurePosixPath] = {}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is not under docs/."""
    _origins.clear()
    for uri, origin in _elsewhere():
        _origins[uri] = PurePosixPath(origin)
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / origin)))
    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    for name, (title, folder) in _GROUPS.items():
        files.append(File.generated(config, f"reference/api/{name}.md", content=_api_page(title, ROOT / folder)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links lead to pages of the site; a file that is none of them is named. Raises PluginError for one that is not."""
    uri = page.file.src_uri
    origin = _origins.get(uri, PurePosixPath("docs") / uri)
    pages = {str(path): where for where, path in _origins.items()}
    pages |= {f"docs/{file.src_uri}": file.src_uri for file in files if file.src_uri not in _origins}

    def rewritten(found: re.Match[str]) -> str:
        picture, text, target = found.groups()
        path, hash_, anchor = target.partition("#")
        place = posixpath.normpath(str(origin.parent / path))
        if place in pages:
            return f"{picture}[{text}]({posixpath.relpath(pages[place], posixpath.dirname(uri))}{hash_}{anchor})"
        if not (ROOT / place).exists():
            raise PluginError(f"{origin} links to {target}, and there is no {place}")
        return f"`{place}`" if text.strip("`") in (place, posixpath.basename(place)) else f"{text} (`{place}`)"

    markdown = re.sub(r"^    options:\n", rf"\g<0>{_OPTIONS}", markdown, flags=re.MULTILINE)
    # What stands between fences is code.
    parts = re.split(r"(^(?P<fence>`{3,}).*?^(?P=fence)$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if number % 3 == 1 else _LINK.sub(rewritten, part)
        for number, part in enumerate(parts)
        if number % 3 != 2  # the fence alone, which is a group of its own
    )


def _elsewhere() -> Iterator[tuple[str, str]]:
    """Pages of the site, and the files of the repository that they are."""
    yield "changelog.md", "CHANGELOG.md"
    yield "contributing.md", "CONTRIBUTING.md"
    yield "security.md", "SECURITY.md"
    for path in sorted((ROOT / "examples").glob("*.md")):
        yield f"examples/{path.name}", f"examples/{path.name}"
    for path in sorted((ROOT / "examples").glob("*/README.md")):
        yield f"examples/{path.parent.name}.md", f"examples/{path.parent.name}/README.md"
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.md")):
        name = "index" if path.stem == "README" else path.stem
        yield f"results/{name}.md", f"benchmarks/results/{path.name}"


def _api_page(title: str, folder: Path) -> str:
    """The public modules of a folder; they are read, not imported."""
    modules = sorted(path for path in folder.glob("*.py") if path.stem != "__init__" and not path.stem.endswith("_pb2"))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules)
    return f"# {title}\n\n" + "\n".join(f"::: {name}\n" for name in names)
