"""One federation for all tests with containers: its start takes longer than most of them."""

from collections.abc import Iterator

import pytest

from tests.deploy.federation import Federation, federation


@pytest.fixture(scope="session")
def deployed() -> Iterator[Federation]:
    with federation() as made:
        yield made


@pytest.fixture(autouse=True)
def _logs(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the containers said, beside a test that failed."""
    made: Federation | None = request.getfixturevalue("deployed") if "deployed" in request.fixturenames else None
    failed = request.session.testsfailed
    yield
    if made and request.session.testsfailed > failed:
        print(made.logs())
