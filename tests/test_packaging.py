"""What is installed at a hospital and what Flower bundles: all that is needed, and nothing else."""

import ast
import importlib.util
import io
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from flwr.cli.build import build_fab_from_disk

from fedct_flwr.flower.command import stage_app
from tests.patience import PATIENCE

# Flower's, when it builds a bundle.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")]

ROOT = Path(__file__).parents[1]
PACKAGES = ("fedct_flwr", "server_app", "client_app")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SOURCES = sorted(
    str(path.relative_to(ROOT))
    for package in PACKAGES
    for path in (ROOT / package).rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
)
BUNDLED = {".py", ".json"}
FOR_PEOPLE = tuple(name.removesuffix("**/*.py") for name in PYPROJECT["tool"]["flwr"]["app"]["fab-exclude"])
MEGABYTE = 1 << 20


def files_in(archive: bytes | Path) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(archive) if isinstance(archive, bytes) else archive) as file:
        return sorted(file.namelist())


# --- version and declarations


def test_no_federations_are_shipped() -> None:
    # `flwr run` rewrites the pyproject.toml of whoever has them.
    assert "federations" not in PYPROJECT["tool"]["flwr"]
    assert set(PYPROJECT["tool"]["flwr"]) == {"app"}


def imports(path: str) -> Iterator[str]:
    """Top-level packages that a source file imports, wherever in it."""
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def normalized(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower().replace("_", "-")


DISTRIBUTIONS = packages_distributions()  # reads every installed file list, half a second
# Files that only need what they import for what that extra is for.
EXTRAS = {
    **{f"fedct_flwr/silo/{name}.py": "privacy" for name in ("release", "noisy_sum")},
    **{f"fedct_flwr/labelers/{name}.py": "privacy" for name in ("labeler", "dp_linear", "transfer", "students")},
    "fedct_flwr/drawing/counts.py": "privacy",
    "fedct_flwr/datasets/packed_tables.py": "excel",
    "fedct_flwr/datasets/image_folder.py": "images",
    "fedct_flwr/models/loading.py": "onnx",
    "fedct_flwr/learners/transformer.py": "language",
    "fedct_flwr/learners/networks.py": "vision",
    "fedct_flwr/models/onnx_export.py": "onnx",
    "fedct_flwr/learners/trained_network.py": "torch",
    "fedct_flwr/learners/torch_net.py": "torch",
    "fedct_flwr/labelers/dp_sgd.py": "dp-sgd",
    "fedct_flwr/learners/rules.py": "rules",
    "fedct_flwr/learners/stacked.py": "torch",
    "fedct_flwr/report/page.py": "report",
    "fedct_flwr/report/crate.py": "crate",
    "fedct_flwr/baselines/dp_fedavg.py": "privacy",
    "fedct_flwr/integrations/mlflow.py": "mlflow",
} | {path: "privacy" for path in SOURCES if path.startswith("fedct_flwr/privacy/")}
# There where it is used: the library of a model, a notebook's own.
BROUGHT_ALONG = {"fedct_flwr/text/console.py": {"IPython"}}


def requirements(extra: str) -> list[str]:
    """An extra's requirements, and those of the extras that it names."""
    own = PYPROJECT["project"]["optional-dependencies"][extra]
    named = [
        name for entry in own if (found := re.fullmatch(r"fedct-flwr\[(.*)\]", entry)) for name in found[1].split(",")
    ]
    return [*own, *(entry for name in named for entry in requirements(name))]


@pytest.mark.parametrize("path", [path for path in SOURCES if path.endswith(".py")])
def test_whatever_is_imported_is_a_declared_dependency(path: str) -> None:
    # `pip install fedct-flwr` without extras must give a command that starts.
    project = PYPROJECT["project"]
    extra = requirements(EXTRAS[path]) if path in EXTRAS else []
    declared = {normalized(requirement) for requirement in [*project["dependencies"], *extra]}
    foreign = set(imports(path)) - set(sys.stdlib_module_names) - set(PACKAGES) - BROUGHT_ALONG.get(path, set())
    undeclared = {name for name in foreign if not declared & {normalized(d) for d in DISTRIBUTIONS.get(name, [name])}}
    assert undeclared == set()


# --- the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as pip builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", *isolation,
            "--wheel-dir", str(folder), str(ROOT),
        ],
        check=True,
        timeout=PATIENCE,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_packages_with_all_their_files_and_nothing_else(wheel: Path) -> None:
    found = [name for name in files_in(wheel) if ".dist-info/" not in name]
    compose = [f"silo/compose{part}.yaml" for part in ("", ".gpu", ".limits")]
    more = [f"fedct_flwr/cli/{name}" for name in ("app.toml", *compose)]
    assert found == sorted([*SOURCES, *more])


# --- Flower's bundle


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app as ``fedct simulate`` hands it to Flower."""
    app = tmp_path_factory.mktemp("staged") / "fedct-flwr"
    stage_app(app)
    return app


@pytest.fixture(scope="module")
def bundle(staged: Path) -> bytes:
    return build_fab_from_disk(staged)


def test_the_bundle_holds_the_code_and_the_embedded_data_and_nothing_else(bundle: bytes) -> None:
    code = [path for path in SOURCES if Path(path).suffix in BUNDLED and not path.startswith(FOR_PEOPLE)]
    assert "fedct_flwr/datasets/heart_disease.json" in code
    assert not any(path.startswith(("fedct_flwr/cli/", "fedct_flwr/report/")) for path in code)
    assert files_in(bundle) == sorted([*code, "pyproject.toml", ".info/CONTENT"])


def test_the_bundle_is_far_below_flowers_limit(bundle: bytes) -> None:
    assert len(bundle) < 2.5 * MEGABYTE  # of ten


def test_real_silos_are_sent_the_two_apps_alone(tmp_path: Path) -> None:
    app = tmp_path / "fedct-flwr"
    stage_app(app, whole=False)
    bundle = build_fab_from_disk(app)
    apps = [path for path in SOURCES if path.startswith(("server_app/", "client_app/")) and path.endswith(".py")]
    assert files_in(bundle) == sorted([*apps, "pyproject.toml", ".info/CONTENT"])
    assert len(bundle) < 20_000
