"""A real Chromium without a window, and what tests ask of the page in it."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from selenium.common.exceptions import TimeoutException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.status_server import StatusServer
from tests.support.waiting import TIMEOUT

_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # the tests may run as root, where the sandbox does not start
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_MISSING = (
    "The tests of the status page need Chromium and its driver, but `chromium` or `chromedriver` is not installed. "
    "Install them with `make browser`, or as root with: apt-get install chromium chromium-driver"
)
_SOON = 0.4
_LOAD_SECONDS = 10.0
_PICTURES = Path(__file__).resolve().parents[2] / "build" / "page"

_TOO_PALE = """
const least = arguments[0];
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const over = (front, back) => [0, 1, 2].map((i) => front[i] * (front[3] ?? 1) + back[i] * (1 - (front[3] ?? 1)));
const light = (colour) => colour.map((part) => part / 255)
  .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
function ground(element) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255]);
}
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = { texts: 0, pale: [] };
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
  const back = ground(element);
  const [one, other] = [light(over(parse(getComputedStyle(element).color), back)), light(back)];
  const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  found.texts += 1;
  if (ratio < least) found.pale.push(`${ratio.toFixed(2)} ${node.data.trim()}`);
}
return found;
"""


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """Run a headless Chromium with this folder, which does not exist yet, as its profile.

    Raises:
        AssertionError: Chromium or its driver is not installed.
    """
    driver = shutil.which("chromedriver")
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    assert driver is not None, _MISSING
    assert program is not None, _MISSING
    options = ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = Chrome(options=options, service=ChromeService(driver))
    running.set_page_load_timeout(TIMEOUT)  # of every command to the page, on a busy machine too
    try:
        yield running
    finally:
        running.quit()


class Page:
    """The status page in a browser.

    Args:
        browser: The browser.
        server: What serves the page.
    """

    def __init__(self, browser: Chrome, server: StatusServer) -> None:
        self.browser = browser
        self.server = server
        self.emulate()

    def emulate(self, width: int = 1440, height: int = 900, **features: str) -> None:
        """Set the window's size in CSS pixels and media features (`prefers_color_scheme="dark"`)."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": named})

    def open(self, document: Mapping[str, Any] | None = None, link: str = "live") -> "Page":
        """Load the page over this document, and wait until its connection is `live`, `lost` or wants a `token`."""
        if document is not None:
            self.server.document = document
        self.load()
        self.until_link(link)
        return self

    def load(self, path: str = "") -> None:
        """Load what is at this path of the server; once more if the driver does not see the load end, as happens."""
        self.browser.set_page_load_timeout(_LOAD_SECONDS)
        try:
            self.browser.get(self.server.address + path)
        except TimeoutException:
            self.browser.set_page_load_timeout(TIMEOUT)
            self.browser.get(self.server.address + path)
        finally:
            self.browser.set_page_load_timeout(TIMEOUT)

    def show(self, document: Mapping[str, Any]) -> None:
        """Change the document, and wait until the page has asked for it and has shown it."""
        self.server.document = document
        self.wake()

    def wake(self) -> None:
        """Let the page ask at once, as it does when it comes into sight, and wait until it has shown the answer."""
        self.until(lambda: self.run("return document.querySelector('#link').dataset.link !== 'connecting'"))
        asked = len(self.server.asked)
        self.run("document.querySelector('#link-text').textContent = ''")
        self.run("document.dispatchEvent(new Event('visibilitychange'))")
        self.until(lambda: len(self.server.asked) > asked and self.text("link-text") != "")

    def run(self, script: str, *arguments: object) -> Any:
        """Run JavaScript in the page, by the driver, whom the page's policy does not bind; return what it returns."""
        return self.browser.execute_script(script, *arguments)

    def find(self, selector: str) -> WebElement:
        """Return the first element that a CSS selector finds."""
        return self.browser.find_element("css selector", selector)

    def text(self, name: str) -> str:
        """Return the text content of the element of this id."""
        return str(self.run("return document.getElementById(arguments[0]).textContent", name))

    def texts(self, selector: str) -> list[str]:
        """Return what can be seen of all elements that a CSS selector finds, leaving out those that cannot be seen."""
        script = """return [...document.querySelectorAll(arguments[0])]
            .filter((element) => element.checkVisibility()).map((element) => element.innerText)"""
        return list(self.run(script, selector))

    def until(self, true: Callable[[], object]) -> None:
        """Wait until this is true, asking often at first and then less so, as each question costs the browser work.

        Raises:
            TimeoutException: It does not become so.
        """
        with contextlib.suppress(TimeoutException):
            WebDriverWait(self.browser, _SOON, poll_frequency=0.02).until(lambda _: true())
            return
        WebDriverWait(self.browser, TIMEOUT, poll_frequency=0.2).until(lambda _: true())

    def until_link(self, link: str) -> None:
        """Wait until the connection is so."""
        self.until(lambda: self.run("return document.querySelector('#link')?.dataset.link") == link)

    def complaints(self) -> list[str]:
        """Return what Chromium has to say since the last call: errors, violations of the policy, warnings."""
        messages = [entry["message"] for entry in self.browser.get_log("browser")]
        return [message for message in messages if "/favicon.ico" not in message]  # asked for now and then, of no page

    def pale_texts(self, least: float = 4.5) -> list[str]:
        """Return the visible texts whose contrast with what is behind them is below this, each after its contrast.

        Contrast as in WCAG 2.2, from the relative luminance of the computed colours.
        """
        found = self.run(_TOO_PALE, least)
        assert found["texts"] > 0
        return list(found["pale"])

    def tree(self) -> list[tuple[str, str]]:
        """Return role and name of all that the accessibility tree does not ignore."""
        nodes = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        told = [node for node in nodes if not node["ignored"]]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in told]

    def width_needed(self) -> int:
        """Return how far in CSS pixels the widest visible thing reaches to the right."""
        script = """return Math.max(document.documentElement.scrollWidth, ...[...document.body.querySelectorAll('*')]
            .filter((element) => element.checkVisibility() && !element.closest('.unseen, thead, svg'))
            .map((element) => Math.ceil(element.getBoundingClientRect().right)))"""
        return int(self.run(script))

    def picture(self, name: str) -> Path:
        """Keep a picture of the whole page in build/page; return its path."""
        _PICTURES.mkdir(parents=True, exist_ok=True)
        path = _PICTURES / f"{name}.png"
        assert self.browser.save_screenshot(str(path))
        return path
