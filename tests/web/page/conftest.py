"""Fixtures of the status page: one Chromium and one web server for all tests."""

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.support.browser import Page, chromium
from tests.support.status_server import StatusServer


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A headless Chromium; tests fail where none is installed."""
    with chromium(tmp_path_factory.mktemp("chromium") / "profile") as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[StatusServer]:
    """A web server with the page."""
    serving = StatusServer()
    yield serving
    serving.stop()


@pytest.fixture
def page(browser: Chrome, server: StatusServer) -> Page:
    """The page, not loaded yet, in a window of 1440 by 900."""
    server.start()
    made = Page(browser, server)
    made.load("static/page.css")  # away from the test before, whose page would go on asking
    server.reset()
    made.complaints()
    return made
