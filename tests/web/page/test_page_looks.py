import itertools

import pytest

from tests.support.status_documents import STATES, document, error, shard
from tests.web.page.test_page_values import table

ERRORS = [
    error(40, 1, "snapshot.failed", "The snapshot could not be written: no space is left on the device."),
    error(1_200, None, "bus.failed", "The broker kafka-1:9092 did not answer for 30 s; trying again."),
    error(3_000, 5, "shard.failed", "The log differs from what was answered before; perpetua status tells where."),
]
MIXED = document(*[shard(number, state) for number, state in enumerate(("serving", "serving", *STATES))], errors=ERRORS)
CALM = document(*[shard(number) for number in range(4)], errors=ERRORS[1:2])
MANY = document(
    *[shard(number, STATES[number // 13 % 6] if number % 13 == 5 else "serving") for number in range(64)],
    errors=ERRORS,
    profile="paper",
    proved=False,
)
ENDLESS = "x" * 600
ROOM_BESIDE = """const right = (selector) => document.querySelector(selector).getBoundingClientRect().right;
return right('#shards') - right('#shard-table');"""
BROKEN = """const lines = (cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set([...range.getClientRects()].map((box) => Math.round(box.bottom))).size;
};
const figures = document.querySelectorAll('.lines dd, #phase-rows [role="row"] > :not(:first-child)');
return [...figures].filter((cell) => lines(cell) > 1).map((cell) => cell.textContent);"""
SIZES = {"wide": (1440, 900), "laptop": (1100, 800), "tablet": (820, 1000), "narrow": (360, 740)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_contrast(page, scheme, size):
    """Every text stands out from its background by 4.5 to 1: light, dark, wide, narrow, proved, nominal."""
    page.emulate(*SIZES[size], prefers_color_scheme=scheme)
    page.open(MIXED)
    assert page.pale_texts() == []
    page.picture(f"{size}-{scheme}")
    page.show({**MIXED, "proved": False})
    assert page.pale_texts() == []
    page.show(CALM)
    assert page.pale_texts() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_a_table_at_every_size(page, scheme, size):
    """With some paid and with all: it can be read, nothing scrolls sideways, and no figure is broken."""
    width, height = SIZES[size]
    page.emulate(width, height, prefers_color_scheme=scheme)
    for paid in (17, 200):
        page.open(table(paid))
        assert page.pale_texts() == []
        assert page.width_needed() <= width
        assert page.run(BROKEN) == []
        assert page.run(ROOM_BESIDE) >= 0
        page.picture(f"table-{size}-{scheme}-{paid}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_without_an_answer(page, scheme):
    """Greyed values and the notice of a silent daemon can be read as well, and so can the form for a token."""
    page.emulate(*SIZES["tablet"], prefers_color_scheme=scheme)
    page.open(MIXED)
    page.server.code = 500
    page.until_link("lost")
    assert page.pale_texts() == []
    page.picture(f"lost-{scheme}")
    page.server.token = "not-the-one"  # noqa: S105 # of this test only
    page.open(link="token")
    page.find("#token").send_keys("another\n")
    page.until(lambda: page.text("token-problem"))
    assert page.pale_texts() == []
    page.picture(f"token-{scheme}")


def test_contrast_is_measured(page):
    """The measure of contrast sees a text that is too pale, and knows the extremes."""
    page.open(CALM)
    page.run("document.querySelector('#model').style.color = '#aab'")
    assert [text.split(" ", 1)[1] for text in page.pale_texts()] == ["vfr"]
    page.run("document.querySelector('#model').style.color = '#000'")
    page.run("document.querySelector('.who').style.background = '#fff'")
    assert "21.00 vfr" in page.pale_texts(21.5)


def test_light_and_dark_differ(page):
    """The page follows the scheme that the system prefers."""
    grounds = []
    for scheme in ("light", "dark"):
        page.emulate(prefers_color_scheme=scheme)
        page.open(CALM)
        grounds.append(page.run("return getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(243, 245, 247)", "rgb(14, 19, 23)"]


@pytest.mark.slow
def test_nothing_scrolls_sideways(page):
    """At every width the page fits, with 64 shards, endless words and large figures too, and in a wide font."""
    large = shard(0, "restoring", round=2**53, lag_records=2**53, lag_seconds=1e7, rearms=10**6, snapshot_bytes=10**15)
    told = [error(5, 0, ENDLESS, ENDLESS)]
    reasons = [{"shard": 0, "check": "restored", "text": ENDLESS}]
    worst = document(large, *MANY["shards"][1:], errors=told, model=ENDLESS, not_ready=reasons, ready=False)
    for shown, font in itertools.product((MIXED, MANY, worst), ("", "DejaVu Sans")):
        page.open(shown)
        page.run(f"document.body.style.fontFamily = '{font}'")
        for width in (320, 360, 820, 1020, 1100, 1220, 1400, 1440, 1920):
            page.emulate(width)
            assert page.width_needed() <= width, (font, width)
            assert page.run(ROOM_BESIDE) >= 0, (font, width)


def test_figures_stay_in_one_piece(page):
    """No figure of the schedule or of what a record pays is broken in two lines."""
    schedule = [{"rounds": 26_105_716_298_289, "delta": 1.71e-10}]
    page.open(document(shard(0, delta_spent=1.03e-4, delta_limit=1e-3), schedule=schedule))
    for width in (820, 1020, 1100, 1440):
        page.emulate(width)
        assert page.run(BROKEN) == [], width


def test_one_screen(page):
    """All that changes fits on one screen of 1440 by 900, the errors and rejections included; the plan is below."""
    page.open(MIXED)
    bottom = (
        "return Math.max(...[...document.querySelectorAll(arguments[0])].map((e) => e.getBoundingClientRect().bottom))"
    )
    assert page.run(bottom, ".top, .verdict, .overview, .below") <= 900
    assert "error at most 0.0984, an estimate" in page.text("facts")  # of the plan, what matters most


def test_many_shards(page):
    """Of 64 shards one can choose those in a state; headings stay in sight while the table scrolls."""
    page.open(MANY)
    assert len(page.texts("#shard-rows tr")) == 64
    assert page.texts("#choices label") == ["All 64", "waiting 1", "restoring 1", "serving 60", "fenced 1", "failed 1"]
    page.picture("many")
    page.run("window.scrollTo({ top: 1200, behavior: 'instant' })")
    assert page.run("return document.querySelector('thead th').getBoundingClientRect().top") == pytest.approx(0, abs=1)
    page.run("window.scrollTo({ top: 0, behavior: 'instant' })")
    page.find("#choices input[value=failed]").click()
    assert page.texts("#shard-rows th") == ["57"]
    page.show(document(*[shard(number) for number in range(64)]))
    assert page.texts("#shard-rows th") == []
    assert page.texts("#choices label") == ["All 64", "serving 64", "failed 0"]
    page.find("#choices input[value=all]").click()
    assert len(page.texts("#shard-rows tr")) == 64


def test_cards(page):
    """On a narrow screen a shard is a card with its headings inside, and all figures of the table."""
    page.emulate(*SIZES["narrow"])
    page.open(MIXED)
    script = """return [...document.querySelectorAll('#shard-rows tr:first-child > *')]
        .map((cell) => getComputedStyle(cell, '::before').content)"""
    headings = ["Queries/s", "Lag", "Round", "Phase", "Rounds left", "Re-arms", "δ of all", "Snapshot", "Rejected"]
    assert page.run(script) == ['"Shard "', "none", *[f'"{heading}"' for heading in headings]]
    assert page.run("return document.querySelector('#shard-rows tr').getBoundingClientRect().height") < 220


def test_motion(page):
    """Nothing moves by itself, and for those who prefer less motion a jump to a section does not glide either."""
    for preference, behaviour in (("no-preference", "smooth"), ("reduce", "auto")):
        page.emulate(prefers_reduced_motion=preference)
        page.open(MIXED)
        assert page.run("return document.getAnimations().length") == 0
        assert page.run("return getComputedStyle(document.documentElement).scrollBehavior") == behaviour
