"""One federation for all tests with containers: its start takes longer than most of them."""

from collections.abc import Iterator

import pytest

from tests.deploy.federation import Federation, federation

collect_ignore = ["dies.py", "joint_demo.py"]
"""They run in containers, and need what is there."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a federation of their own first: two at once would take each other's processor."""
    items.sort(key=lambda item: "deployed" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def deployed() -> Iterator[Federation]:
    with federation() as made:
        yield made


@pytest.fixture(autouse=True)
def _logs(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the containers said, beside a test that failed."""
    used = [name for name in ("deployed", "joint") if name in request.fixturenames]
    federations: list[Federation] = [request.getfixturevalue(name) for name in used]
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        for each in federations:
            print(each.logs())
