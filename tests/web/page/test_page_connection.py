import time

from tests.support.status_documents import document, shard

ONE = document(shard(0))
TWO = document(shard(0), shard(1, "restoring"))
SECRET = "a-token/with+signs=="  # noqa: S105 # of these tests only


def greyed(page):
    """Whether the values are shown as old ones."""
    return page.run("return document.querySelector('#status').classList.contains('stale')")


def watch(page):
    """Collect what is announced from here on in `window.told`."""
    page.run("""window.told = []; const announcer = document.querySelector('#announcer');
        new MutationObserver(() => window.told.push(announcer.textContent)).observe(announcer, { childList: true });""")


def test_gone_and_back(page):
    """When the daemon is gone the page says so and since when, keeps the last values greyed, and recovers by itself."""
    page.open(ONE)
    watch(page)
    last = page.text("link-text").removeprefix("Live · ")
    page.server.stop()
    page.until_link("lost")
    assert page.texts("#lost-title") == ["The daemon does not answer"]
    assert "The last one came at " in page.text("lost-text")
    assert page.text("lost-text").split("came at ")[1][:8] >= last
    assert "what is shown below dates from then" in page.text("lost-text")
    assert greyed(page)
    assert page.text("rate-now") == "1,235"
    assert page.browser.title == "No answer · Perpetua"
    page.server.document = TWO
    page.server.start()
    page.until_link("live")
    assert not greyed(page)
    assert page.texts("#lost") == []
    assert page.text("rate-now") == "1,235"
    assert len(page.texts("#shard-rows tr")) == 2
    told = page.run("return window.told")
    assert [words.split(" ", 4)[:4] for words in told] == [
        ["The", "daemon", "does", "not"],
        ["The", "daemon", "answers", "again."],
    ]


def test_never_there(page):
    """A page whose daemon has not answered yet shows no values at all."""
    page.server.code = 503
    page.open(ONE, link="lost")
    assert page.text("lost-text").startswith(
        "It answers with the HTTP status 503. There has been none yet. Next attempt in "
    )
    assert page.texts("#lost-title") == ["The daemon gives no status"]
    assert page.texts("#status, #sections") == []


def watch_waits(page):
    """Collect in `window.waits` what each failed attempt says first of the next one, before it is counted down."""
    page.run("""window.waits = []; const text = document.querySelector('#lost-text'); let fresh = true;
        new MutationObserver(() => {
          const told = /Next attempt in (\\d+) s/.exec(text.textContent);
          if (told && fresh) window.waits.push(Number(told[1]));
          fresh = told === null;
        }).observe(text, { childList: true, characterData: true, subtree: true });""")


def test_it_backs_off(page):
    """The pause between attempts doubles, and a click cuts it short."""
    page.open(ONE)
    watch_waits(page)
    page.server.code = 500
    page.until_link("lost")
    for attempts in range(1, 6):
        page.until(lambda least=attempts: page.run("return window.waits.length") >= least)
        page.find("#retry").click()
    assert page.run("return window.waits.slice(0, 5)") == [2, 4, 8, 16, 30]
    page.server.code = 200
    page.find("#retry").click()
    page.until_link("live")
    page.run("window.waits = []")
    page.server.code = 500
    page.until_link("lost")
    page.until(lambda: page.run("return window.waits.length"))
    assert page.run("return window.waits[0]") == 2


def test_nonsense(page):
    """An answer that is no status is told as such, and the last values stay, greyed."""
    page.open(ONE)
    for nonsense, told in (
        (b"<html>", "What it answers is not JSON."),
        (b"[]", "What it answers is not a status that this page can read."),
        (b'{"shards": 7}', "What it answers is not a status that this page can read."),
        (b"null", "What it answers is not a status that this page can read."),
    ):
        page.server.document = nonsense
        page.wake()
        page.until(lambda told=told: told in page.text("lost-text"))
        assert greyed(page)
        assert page.text("rate-now") == "1,235"
        page.show(ONE)
        assert not greyed(page)


def test_a_daemon_that_hangs(page):
    """An answer that does not come is given up after five seconds."""
    page.open(ONE)
    page.server.delay = 7.0
    page.until_link("lost")
    assert page.text("lost-text").startswith("It took longer than 5 s. The last one came at")
    page.server.delay = 0.0
    page.find("#retry").click()
    page.until_link("live")


_WAITS = """
const real = window.setTimeout;
window.waits = [];
window.setTimeout = (act, wait) => {
  window.waits.push(wait);
  return real(act, wait);
};
"""


def test_it_polls(page):
    """The page asks every two seconds, and of nobody else and nothing else, and only reads."""
    page.open(ONE)
    page.run(_WAITS)
    page.server.asked.clear()
    started = time.monotonic()
    page.until(lambda: len(page.server.asked) >= 2)
    assert time.monotonic() - started >= 2.0
    assert set(page.run("return window.waits")) == {2000, 5000}  # for the next time, and for the answer
    assert set(page.server.asked) == {"/status"}
    page.open(ONE)
    assert sorted(set(page.server.asked)) == ["/", "/static/page.css", "/static/page.js", "/status"]
    assert page.server.written == []
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert all(name.startswith((page.server.address, "data:")) for name in loaded)


def test_it_pauses_out_of_sight(page):
    """While another tab is in front the page does not ask, and it asks at once when it is back."""
    page.open(ONE)
    mine = page.browser.current_window_handle
    page.browser.switch_to.new_window("tab")
    try:
        asked = len(page.server.asked)
        ends = time.monotonic() + 2.5
        page.until(lambda: time.monotonic() > ends)
        assert len(page.server.asked) == asked
    finally:
        page.browser.close()
        page.browser.switch_to.window(mine)
    page.until(lambda: len(page.server.asked) > asked)


def test_token(page):
    """A daemon with a token is asked with it, once the operator has given it; a wrong one is told."""
    page.server.token = SECRET
    page.open(ONE, link="token")
    assert page.run("return document.activeElement.id") == "token"
    assert page.texts("#status, #lost") == []
    page.find("#token").send_keys("wrong\n")
    page.until(lambda: page.texts("#token-problem") == ["The daemon does not take this token."])
    page.find("#token").send_keys("two words\n")
    page.until(lambda: "no spaces" in page.text("token-problem"))
    page.find("#token").send_keys(SECRET)
    page.find("#token-form button").click()
    page.until_link("live")
    assert page.texts("#token-form") == []
    assert page.text("rate-now") == "1,235"
    page.wake()
    page.server.token = SECRET[::-1]
    page.until_link("token")
    assert greyed(page)


def test_the_token_stays_in_memory(page):
    """The token is nowhere but in memory: a reload asks for it again, and no store, cookie, address or field has it."""
    page.server.token = SECRET
    page.open(ONE, link="token")
    page.find("#token").send_keys(SECRET + "\n")
    page.until_link("live")
    stores = "return JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, history.state])"
    assert page.run(stores) == f'[{{}},{{}},"","{page.server.address}",null]'
    assert page.run("return document.querySelector('#token').value") == ""
    assert SECRET not in page.run("return document.documentElement.outerHTML")
    page.open(link="token")
