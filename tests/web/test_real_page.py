"""The page of a real daemon in a real browser: nothing stands in for anything."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from selenium.webdriver import Chrome

from oracle.planning.promise import promise_of
from oracle.web.guard import HEADERS
from tests.support.browser import Page, chromium
from tests.support.folders import command, environment, long_plan, make_state, write_config, write_log
from tests.support.status_server import CONTENT_SECURITY_POLICY, StatusServer
from tests.support.tables import paying_plan, questions
from tests.support.waiting import eventually


class _Address:
    """Where a daemon's page is."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/"


def _listening(log: Path, process: subprocess.Popen[bytes]) -> int:
    """Return the port that the daemon says it listens at."""

    def lines() -> list[str]:
        assert process.poll() is None, log.read_text()
        return [line for line in log.read_text().splitlines(keepends=True) if '"web.listening"' in line]

    eventually(lambda: any(line.endswith("\n") for line in lines()), what=log.read_text)
    return int(json.loads(lines()[0])["port"])


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[_Address]:
    """A daemon that has answered what there is, wants a token, and waits for more."""
    make_state(tmp_path / "state", long_plan())
    write_log(tmp_path, 500)
    token = tmp_path / "token"
    token.write_text("opens-it-for-tests\n")
    token.chmod(0o600)
    web = {"port": 0, "token_file": str(token)}
    config = write_config(tmp_path, source={"follow": True}, service={"log": "json"}, web=web)
    log = tmp_path / "serve.log"
    with log.open("wb") as stream, subprocess.Popen(command("serve", config), stderr=stream, env=environment()) as run:
        yield _Address(_listening(log, run))
        run.kill()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chrome]:
    """A headless Chromium."""
    with chromium(tmp_path / "profile") as running:
        yield running


def test_an_operator_looks_at_a_daemon(daemon: _Address, browser: Chrome) -> None:
    """The page asks for the token; with it the daemon's own figures are shown, and the policy is not broken."""
    page = Page(browser, cast("StatusServer", daemon))  # of which only the address is asked for
    page.load()
    page.until_link("token")
    page.complaints()  # that /status was refused is one
    page.find("#token").send_keys("opens-it-for-tests\n")
    page.until_link("live")
    page.until(lambda: page.text("verdict-title") == "Ready: 1 of 1 shard serving")
    page.until(lambda: page.texts("#shard-rows .state") == ["serving"])
    assert page.text("model") == "tiny"

    def rounds() -> int:
        return int(page.text("progress-rounds").replace(",", ""))

    page.until(lambda: rounds() + int(page.text("nav-rejections") or 0) == 500)
    assert rounds() > 0
    promise = promise_of(long_plan())
    assert page.text("promise-bound") == f"at most {promise.bound:.4f}"
    assert page.texts("#promise-conditions li") == list(promise.conditions)
    assert f"{long_plan().declared:,} training rows declared" in page.text("phase-rows")
    assert "%" not in page.find("#privacy-title").find_element("xpath", "..").text  # nothing runs out
    assert page.complaints() == []
    assert page.pale_texts() == []
    assert page.picture("real").stat().st_size > 0


@pytest.mark.parametrize("predictor", ["statistics", "sparse-vector"])
def test_an_operator_looks_at_a_table(tmp_path: Path, browser: Chrome, predictor: str) -> None:
    """A daemon that has paid for all it may says so on its page, and is ready; narrow and dark as well."""
    plan = paying_plan(predictor, 8)
    make_state(tmp_path / "state", plan)
    (tmp_path / "q.jsonl").write_bytes(b"".join(body + b"\n" for body in questions(predictor, 400)))
    config = write_config(tmp_path, source={"follow": True}, service={"log": "json"}, web={"port": 0})
    log = tmp_path / "serve.log"
    with log.open("wb") as stream, subprocess.Popen(command("serve", config), stderr=stream, env=environment()) as run:
        try:
            page = Page(browser, cast("StatusServer", _Address(_listening(log, run))))
            page.load()
            page.until_link("live")
            page.until(lambda: page.text("progress-rounds") == "400")
            assert page.text("progress-paid") == f"{plan.paid} of {plan.paid}"
            assert page.text("progress-unpaid") == "0"
            assert page.text("spent-title") == "No paid answer is left"
            assert page.text("verdict-title") == "Ready: 1 of 1 shard serving"
            assert page.text("promise-bound") == f"before: at most {plan.alpha:.4f}"
            assert page.text("promise-over").startswith("Nothing new is promised: all paid answers are spent.")
            assert (page.text("privacy-epsilon"), page.text("privacy-delta")) == ("1", "1.00e-6")
            assert page.texts("#errors-list .event") == ["answers.spent"]
            for width in (360, 1440):
                page.emulate(width, prefers_color_scheme="dark")
                assert page.pale_texts() == []
                assert page.width_needed() <= width
                page.picture(f"real-{predictor}-{width}")
            assert page.complaints() == []
        finally:
            run.kill()


def test_the_stand_in_of_the_page_tests_has_the_daemons_policy() -> None:
    """What the other tests of the page serve it under is what the daemon does."""
    assert HEADERS["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
