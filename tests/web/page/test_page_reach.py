import re

import pytest
from selenium.webdriver import ActionChains, Keys

from tests.support.status_documents import STATES, document, error, shard

MIXED = document(
    *[shard(number, state) for number, state in enumerate(STATES)], errors=[error(40, 1, "bus.failed", "No answer.")]
)

_FOCUS = """
const at = document.activeElement;
if (at === document.body) return null;
const shown = getComputedStyle(at.closest('#choices label') ?? at);
return [at.id || at.value || at.textContent, shown.outlineStyle !== 'none' && parseFloat(shown.outlineWidth) >= 2];
"""
_WATCH = """
window.told = [];
const announcer = document.querySelector('#announcer');
new MutationObserver(() => window.told.push(announcer.textContent)).observe(announcer, { childList: true });
"""


def press(page, *keys):
    """Press keys, wherever the focus is."""
    for key in keys:
        ActionChains(page.browser, duration=0).send_keys(key).perform()


def round_trip(page):
    """Press Tab until the focus leaves the page; return where it came by, and whether each could be seen."""
    stops: list[list[object]] = []
    for _ in range(30):
        press(page, Keys.TAB)
        stop = page.run(_FOCUS)
        if stop is None or stop in stops:
            return stops
        stops.append(stop)
    pytest.fail("the focus does not leave the page")


def test_keyboard(page):
    """Tab comes by all that is interactive, in the order of reading, visibly, and leaves the page again."""
    page.open(MIXED)
    stops = round_trip(page)
    assert [name for name, _ in stops] == [
        "Skip to the status",
        "Shards",
        "Promise",
        "Rejections 30",
        "Errors 1",
        "all",
    ]
    assert all(visible for _, visible in stops)
    interactive = (
        "return document.querySelectorAll('a, button, input, select, textarea, summary, [tabindex=\"0\"]').length"
    )
    unseen = len(["retry", "token", "its button", "models to choose from"])
    assert page.run(interactive) == len(stops) + len(STATES) + unseen  # the states are one stop, with arrows inside


def test_skip_link(page):
    """The first stop is a link past the head, seen once it has the focus."""
    page.open(MIXED)
    press(page, Keys.TAB)
    assert page.run("return document.activeElement.getBoundingClientRect().top") >= 0
    press(page, Keys.ENTER)
    assert page.run("return document.activeElement.id") == "main"


def test_arrows_choose_a_state(page):
    """With the arrows one chooses which shards are shown, and a poll changes neither choice nor focus."""
    page.open(MIXED)
    press(page, *[Keys.TAB] * 6, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.texts("#shard-rows .state") == ["restoring"]
    page.show(MIXED)
    assert page.texts("#shard-rows .state") == ["restoring"]
    assert page.run(_FOCUS) == ["restoring", True]


def test_keyboard_without_an_answer(page):
    """The button that tries again is reached by the keyboard and works."""
    page.server.code = 500
    page.open(MIXED, link="lost")
    assert [name for name, _ in round_trip(page)] == ["Skip to the status", "retry"]
    page.server.code = 200
    page.run("document.querySelector('#retry').focus()")
    press(page, Keys.ENTER)
    page.until_link("live")


@pytest.mark.parametrize("size", [(1440, 900), (360, 740)])
def test_accessibility_tree(page, size):
    """Landmarks, the table, its headings, bars, charts and choices have names, as a table and as cards."""
    page.emulate(*size)
    page.open(MIXED)
    tree = page.tree()

    def names(role):
        return [name for found, name in tree if found == role]

    assert [len(names(role)) for role in ("banner", "main", "contentinfo")] == [1, 1, 1]
    assert names("navigation") == ["Sections"]
    cards = ["Throughput", "Lag", "Privacy proved", "Schedule", "Shards", "Last errors", "Rejections by reason"]
    cards += ["Promised error an estimate", "What the phases pay"]
    cards += ["Not ready: 1 of 6 shards serving"]
    assert sorted(names("region")) == sorted(cards)
    assert sorted(names("heading")) == sorted(["Perpetua vfr", *cards])
    assert names("table") == ["Shards", "What the phases pay"]
    assert [name.split()[-1] for name in names("rowheader")] == [str(number) for number in range(len(STATES))]
    assert len(names("columnheader")) == 11 + 4
    assert len(names("cell")) == 10 * len(STATES) + 4 * len(page.texts("#phase-rows > *"))
    assert [name.partition(":")[0] for name in names("image")] == [
        "Queries per second over the last 5 min",
        "Lag over the last 5 min",
    ]
    bars = names("meter")
    assert len(bars) == len(set(bars)) == len(STATES) + 2
    assert all(re.search(r"[a-z]{4}", bar) for bar in bars)
    assert names("radio") == ["All 6", *[f"{state} 1" for state in STATES]]
    assert "Shards to show, by state" in names("group")


def test_headings_and_table(page):
    """Headings go down by one step, and every heading of the table has its scope."""
    page.open(MIXED)
    levels = page.run("""return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')]
        .filter((heading) => heading.checkVisibility()).map((heading) => heading.tagName)""")
    assert levels == ["H1", *["H2"] * (len(levels) - 1)]
    scopes = page.run("return [...document.querySelectorAll('th')].map((heading) => heading.scope)")
    assert scopes == ["col"] * 11 + ["row"] * len(STATES)
    assert page.run("return document.documentElement.lang") == "en"


def test_only_changes_are_announced(page):
    """A screen reader is told of changes of state, of readiness and of new errors, and of nothing at other polls."""
    steady = document(*[shard(number) for number in range(6)])
    page.open(steady)
    page.run(_WATCH)
    for rounds in (10, 20, 30):
        page.show({**steady, "shards": [shard(0, round=rounds), *steady["shards"][1:]], "now": steady["now"] + rounds})
    assert page.run("return window.told") == []
    failing = document(shard(0), shard(1, "failed"), *steady["shards"][2:], errors=MIXED["errors"])
    page.show(failing)
    page.show(failing)
    assert page.run("return window.told") == ["Shard 1 is failed. The daemon is not ready. 1 new error."]
    page.show(document(*[shard(number, "restoring") for number in range(6)], errors=MIXED["errors"]))
    assert page.run("return window.told.at(-1)") == "6 shards changed their state."
    live = page.run(
        "return [...document.querySelectorAll('[aria-live], [role=status], [role=alert]')].map((e) => e.id)"
    )
    assert live == ["announcer", "token-problem"]
