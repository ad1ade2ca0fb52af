from typing import Any, Final

import pytest

from tests.support.browser import Page
from tests.support.status_documents import NOW, STATES, document, error, shard

EIGHT = [shard(number) for number in range(8)]


def test_overview(page):
    """The overview shows what the document says, summed over the shards."""
    page.open(document(*EIGHT))
    shown = {
        "model": "vfr",
        "facts": "version 0.1.0 · rectangles, tight profile · error at most 0.0984, an estimate · alpha 0.1 · "
        "up 2 d 4 h",
        "verdict-title": "Ready: 8 of 8 shards serving",
        "rate-now": "9,876",
        "lag-now": "336",
        "lag-unit": "records, 1.8 s behind at most",
        "progress-rounds": "9,663,444",
        "progress-phase": "2 of 5 planned",
        "progress-left": "8,650 shard 7 in 7 s",
        "progress-rearms": "7",
        "progress-batches": "10,444",
        "progress-age": "8 min shard 7",
        "progress-bytes": "10.2 MB",
        "nav-rejections": "49",
        "nav-errors": "",
    }
    assert {name: page.text(name) for name in shown} == shown
    assert page.browser.title == "Ready · vfr · Perpetua"


def test_shard_row(page):
    """A shard's row shows its state and figures, each below its heading."""
    page.open(document(*EIGHT))
    headings = page.texts("#shard-table thead th")
    cells = page.texts("#shard-rows tr:nth-child(4) > *")
    assert dict(zip(headings, cells, strict=True)) == {
        "Shard": "3",
        "State": "serving",
        "Queries/s": "1,235",
        "Lag": "36 · 0.8 s",
        "Round": "1,207,442",
        "Phase": "2 of 5",
        "Rounds left": "12,558",
        "Re-arms": "0",
        "δ of all": "6.28e-5",
        "Snapshot": "4 min · 1.3 MB",
        "Rejected": "6",
    }
    bars = page.run(
        "return [...document.querySelectorAll('#shard-rows tr:nth-child(4) meter')].map((bar) => bar.value)"
    )
    assert bars == pytest.approx([7_442 / 20_000])


def test_every_state(page):
    """Each state is shown by its word and by a sign of its own, so not by colour alone."""
    page.open(document(*[shard(number, state) for number, state in enumerate(STATES)]))
    assert page.texts("#shard-rows .state") == list(STATES)
    signs = page.run("return [...document.querySelectorAll('#shard-rows use')].map((use) => use.getAttribute('href'))")
    assert signs == [f"#icon-{state}" for state in STATES]
    drawings = page.run("return arguments[0].map((sign) => document.querySelector(sign).innerHTML)", signs)
    assert len(set(drawings)) == len(STATES)


def test_not_ready(page):
    """What is not ready is told in the daemon's words, the first four one by one."""
    page.open(document(*[shard(number, "restoring") for number in range(6)]))
    assert page.text("verdict-title") == "Not ready: 0 of 6 shards serving"
    told = [f"shard {number} is not restored yet" for number in range(4)]
    script = "return [...document.querySelectorAll('#verdict-reasons li')].map((reason) => reason.textContent)"
    assert page.run(script) == [*told, "and 2 more reasons"]
    assert page.browser.title == "Not ready · vfr · Perpetua"


def test_unknown_figures(page):
    """Lag that the source cannot tell and a snapshot that is not there are told as such, not as 0."""
    lonely = shard(0, "waiting", snapshot_at=None, snapshot_bytes=None)
    page.open(document(lonely, history={"seconds": 5.0, "ends": NOW, "rates": [0.0], "lags": [None]}))
    cells = page.texts("#shard-rows tr > *")
    assert (cells[3], cells[9]) == ("–", "none yet")
    assert (page.text("lag-now"), page.text("lag-unit")) == ("–", "not known while shards wait")
    assert page.text("progress-age") == "none yet"
    assert page.find("#lag-chart svg").get_attribute("aria-label") == "Lag over the last 5 s: not known."
    page.show(document(shard(0, "serving", lag_records=None, lag_seconds=None)))
    assert (page.text("lag-now"), page.text("lag-unit")) == ("–", "this source cannot tell")


def test_no_shard(page):
    """A process without a shard says so."""
    page.open(document(shards=[], ready=False, delta_spent=0.0, delta_limit=0.0))
    assert page.texts("#shards-none") == ["No shard is assigned to this process."]
    assert page.texts("#shard-table, #filter") == []
    assert page.text("privacy-spent") == "0"
    assert page.text("progress-left") == "–"
    assert page.texts("#phase-rows [data-now=true]") == []


def test_one_shard(page):
    """Of a single shard nothing is said twice, and there is nothing to choose."""
    page.open(document(shard(0)))
    assert page.text("progress-left") == "15,489 in 12 s"
    assert page.texts("#filter") == []


def test_charts(page):
    """A chart draws its history with the newest value at the right, leaves gaps, and says the same in words."""
    lags = [None, 20.0, None, 40.0, 10.0]
    page.open(document(history={"seconds": 5.0, "ends": NOW, "rates": [0.0, 50.0, 100.0, 50.0], "lags": lags}))
    curve = "return [...document.querySelectorAll(arguments[0] + ' .curve')].map((path) => path.getAttribute('d'))"
    assert page.run(curve, "#rate-chart") == ["M284.7 84.0L289.8 42.0L294.9 0.0L300.0 42.0"]
    assert page.run(curve, "#lag-chart") == ["M284.7 42.0h2", "M294.9 0.0L300.0 63.0"]
    assert page.find("#rate-chart svg").get_attribute("aria-label") == (
        "Queries per second over the last 20 s: now 50 queries per second, lowest 0, highest 100, mean 50."
    )
    assert page.texts("#rate-chart .scale span") == ["100", "50", "0"]
    assert page.texts("#rate-chart .ends span") == ["5 min ago", "now"]


def test_privacy_is_rounded_up(page):
    """Privacy spent is never shown as less than it is, and never as a share that runs out."""
    page.open(document())
    for spent, shown in ((0.0, "0"), (1e-7, "1.00e-7"), (1.231e-4, "1.24e-4"), (2.5000000001e-4, "2.51e-4")):
        page.show(document(delta_spent=spent, delta_limit=1e-3))
        assert (page.text("privacy-spent"), page.text("privacy-limit")) == (shown, "1e-3")
    assert page.texts("#privacy-title ~ meter") == []
    assert "%" not in page.find(".privacy").text


def test_limit_of_a_sum(page):
    """A limit is shown as it is written, without the last digits of a sum of floats."""
    page.open(document(delta_limit=sum([1.25e-4] * 64), epsilon=0.1 + 0.2))
    assert (page.text("privacy-limit"), page.text("privacy-epsilon")) == ("8e-3", "0.3")


def test_privacy_in_words(page):
    """What is proved is called proved with its exact meaning, and what is not is called nominal."""
    page.open(document(shard(0), shard(1, delta=2.003e-12), epsilon=0.75))
    assert page.text("privacy-standing") == "proved"
    assert page.text("privacy-epsilon") == "0.75"
    assert page.text("privacy-unit") == "a record pays, once and for ever"
    assert page.text("privacy-delta") == "2.01e-12"
    assert page.text("privacy-words") == (
        "Proved for each record: ε = 0.75, and a δ of its own. Nothing is used up: a new query pays for itself, and "
        "phases are planned so that the sum over endless rounds stays below its limit. What perpetua fork costs is "
        "not among them."
    )
    page.open(document(shard(0), protects_queries=False))
    words = page.text("privacy-words")
    assert words.startswith("Proved for each training record (queries are not protected): ε = ")
    assert "All of it counts from the start; answers after the rounds that learn cost nothing." in words
    assert page.text("privacy-unit") == "a training record pays, once and for ever"
    page.open(document(shard(0), epsilon=0.75, proved=False, profile="paper"))
    assert page.text("privacy-standing") == "nominal"
    words = "Nominal ε = 0.75, nominal δ: both are names here, no proof bounds them."
    assert page.text("privacy-words") == words
    assert "Proved" not in page.find("#status").text.replace("Promised", "")


def test_privacy_of_what_is_released(page):
    """Of a model whose queries cost nothing there are no phases to pay for, and the words say why."""
    page.open(document(shard(0, delta=0.0, delta_spent=0.0, delta_limit=0.0), released=True, epsilon=0.75))
    assert [page.text(f"privacy-{name}") for name in ("spent", "limit", "epsilon", "delta")] == ["0", "0", "0.75", "0"]
    assert page.text("privacy-unit") == "a training record pays, once and for ever"
    assert not page.find("#phases").is_displayed()
    assert not page.find("#progress-next").is_displayed()
    assert page.text("privacy-words") == (
        "Proved for each training record: ε = 0.75, δ = 0. What was learned from them is released for ever: queries "
        "cost nothing and are not kept, and no δ is ever spent."
    )
    page.show(document())
    assert page.find("#phases").is_displayed()
    assert page.find("#progress-next").is_displayed()


def test_delta_of_a_table_is_a_rows(page):
    """There is no sum of it to show."""
    page.open(document(protects_queries=False, sums_delta=False))
    assert not page.find("#privacy-spent").is_displayed()
    assert not page.find("#privacy-limit").is_displayed()
    assert page.find("#privacy-delta").is_displayed()
    assert "however many questions are asked" in page.text("privacy-words")
    page.show(document())
    assert page.find("#privacy-spent").is_displayed()


def test_promise(page):
    """It is printed whole: bound, whose error it is beyond, probability, kind, basis and every condition."""
    promise = document()["promise"]
    page.open(document())
    assert page.text("promise-kind") == "an estimate"
    assert page.text("promise-bound") == "at most 0.0984"
    assert page.text("promise-unit") == (
        "on honest queries, missed with probability 0.05 at most; asked of the plan: alpha = 0.1"
    )
    assert page.text("promise-basis") == f"How it is known: {promise['basis']}."
    assert page.texts("#promise-conditions li") == promise["conditions"]
    page.show(document(promise={**promise, "on": "any question"}))
    assert page.text("promise-unit").startswith("on any question, missed")
    page.show(document(promise={**promise, "beyond": "the best stump's", "missed": None, "kind": "theorem"}))
    assert page.text("promise-kind") == "a theorem"
    assert page.text("promise-bound") == "at most 0.0984 beyond the best stump's"
    assert page.text("promise-unit") == "on honest queries; asked of the plan: alpha = 0.1"


def test_phases(page):
    """What the training records and each phase pay: the phases that shards are in, those that follow, the last one."""
    page.open(document(shard(0), schedule=[{"rounds": 1000, "delta": 1e-9}] * 9))
    rows = page.texts("#phase-rows > *")
    assert rows[0].split() == ["60,000", "training", "rows", "declared", "1.00e-9", "6.00e-5"]
    assert [row.split("\n")[0] for row in rows[1:]] == ["…", "phase 2, now", "phase 3", "phase 4", "…", "phase 9"]
    assert rows[2].split("\n")[1:] == ["1,000", "1.00e-9", "1.00e-6"]
    assert page.text("phases-words").startswith("A phase is a number of rounds.")
    page.show(document(shard(0, phase=1), shard(1, phase=5)))
    assert page.texts("#phase-rows [data-now=true] > :first-child") == ["phase 1, now", "phase 5, now"]
    assert page.text("phases-words").endswith("Figures are of one shard.")


def test_rejections(page):
    """Rejections are summed over the shards, the most frequent reason first, and reasons without any are left out."""
    page.open(document(shard(0, rejections={"malformed": 1, "bad-id": 0}), shard(1, rejections={"oversized": 4})))
    assert page.texts("#rejections-list dt") == ["oversized", "malformed"]
    assert page.texts("#rejections-list dd") == ["4", "1"]
    page.show(document())
    assert page.texts("#rejections .none") == ["None since the start."]
    assert page.texts("#rejections-list > *") == []


def test_errors(page):
    """Errors are listed as they come, with event, shard, time and text; one of another day has its date."""
    recent = error(40, 1, "snapshot.failed", "No space is left.")
    old = error(200_000, None, "bus.failed", "No answer.")
    page.browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    page.open(document(errors=[recent, old]))
    assert page.texts("#errors-list li p:last-child") == ["No space is left.", "No answer."]
    assert page.texts("#errors-list .event") == ["snapshot.failed", "bus.failed"]
    assert page.texts("#errors-list .when") == ["11:06:00 · 40 s ago", "16 Nov, 03:33"]
    assert page.texts("#errors-list .about span") == ["shard 1"]
    assert page.text("nav-errors") == "2"


def test_it_follows(page: Page):
    """The page follows the document by itself, and what stays in a row stays the same element."""
    page.open(document(shard(0), shard(1, "restoring")))
    page.run("window.row = document.querySelector('#shard-rows').children[1]")
    page.server.document = document(shard(1, round=77), shard(2))
    page.until(lambda: page.texts("#shard-rows th") == ["1", "2"])
    assert page.texts("#shard-rows .state") == ["serving", "serving"]
    assert page.run("return window.row === document.querySelector('#shard-rows').children[0]")
    assert page.run("return window.row.children[4].textContent") == "77"


TABLE: Final[dict[str, Any]] = {
    "predictor": "statistics",
    "protects_queries": False,
    "sums_delta": False,
    "paid_limit": 200,
    "schedule": [{"rounds": 2**49, "delta": 1e-6}],
    "epsilon": 1.0,
    "promise": {
        "bound": 0.02,
        "beyond": "",
        "missed": 0.05,
        "kind": "estimate",
        "basis": "experiments",
        "conditions": ["fewer than 200 were paid before"],
        "on": "any question",
        "questions": 20_001,
    },
}


def table(paid, **changes):
    """Return the document of a table after so many paid answers."""
    at = shard(0, paid=paid, round=20_000, phase=1, phases=1, phase_rounds=2**49, rearms=0, delta=1e-6)
    return document(at, **{**TABLE, **changes})


def test_a_table_shows_what_is_paid(page):
    """Questions, paid answers of K and what is left, epsilon and delta of a row, the promised error; no phases."""
    page.open(table(17))
    assert page.texts(".overview .card:nth-child(4) dt")[:3] == [
        "Questions answered",
        "Paid answers",
        "Paid answers left",
    ]
    shown = {"progress-rounds": "20,000", "progress-paid": "17 of 200", "progress-unpaid": "183"}
    shown |= {"progress-title": "Questions", "privacy-epsilon": "1", "privacy-delta": "1.00e-6"}
    shown |= {"promise-bound": "at most 0.0200"}
    assert {name: page.text(name) for name in shown} == shown
    assert page.texts(".privacy dt") == ["δ of a training record"]
    assert page.text("promise-unit").startswith("on any question")
    assert page.texts("#phases, #spent") == []
    cells = dict(zip(page.texts("#shard-table thead th"), page.texts("#shard-rows tr > *"), strict=True))
    assert cells["Paid left"] == "183"
    assert not {"Phase", "Rounds left", "Re-arms", "δ of all"} & cells.keys()
    bars = page.run("return [...document.querySelectorAll('#shard-rows meter')].map((bar) => bar.value)")
    assert bars == pytest.approx([17 / 200])


def test_paid_answers_that_settle_all_others_are_no_warning(page):
    """Behind the last one the promise stands: all of a distribution's thresholds are known."""
    page.open(table(199, predictor="distribution", settles=True))
    page.show(table(200, predictor="distribution", settles=True))
    assert page.texts("#spent") == []
    assert page.text("progress-paid") == "200 of 200"
    assert page.text("promise-bound") == "at most 0.0200"
    assert page.text("announcer") == ""


@pytest.mark.parametrize(
    ("predictor", "words"),
    [("statistics", "Answers are no longer verified"), ("sparse-vector", "Only what follows from earlier answers")],
)
def test_that_nothing_is_left_to_pay_is_a_warning(page, predictor, words):
    """At the last paid answer, not before; the daemon is ready all the same."""
    page.open(table(199, predictor=predictor))
    assert page.texts("#spent") == []
    page.show(table(200, predictor=predictor))
    assert page.text("spent-title") == "No paid answer is left"
    assert words in page.text("spent-text")
    assert page.text("announcer") == "No paid answer is left."
    assert page.text("verdict-title") == "Ready: 1 of 1 shard serving"
    assert page.text("progress-unpaid") == "0"


def ensemble(*lefts, **changes):
    """Return the document of an ensemble whose shards will rest for so many rounds."""
    shards = [shard(number, rested=1_200, rest_left=left) for number, left in enumerate(lefts)]
    return document(*shards, predictor="ensemble", rests=True, **changes)


def test_a_rest_is_a_warning(page):
    """While queries get no answer, not before and not behind; the daemon is ready all the same."""
    page.open(ensemble(0, 0))
    assert page.texts("#rest") == []
    assert page.text("progress-rested") == "2,400"
    page.show(ensemble(0, 1_500))
    assert page.text("rest-title") == "A rest: no answers for some rounds"
    assert "shard 1 for 1,500 rounds more" in page.text("rest-text")
    assert page.text("announcer") == "Queries get no answer: a rest."
    assert page.text("verdict-title") == "Ready: 2 of 2 shards serving"
    cells = page.texts("#shard-rows tr:nth-child(2) > *")
    assert dict(zip(page.texts("#shard-table thead th"), cells, strict=True))["Rest left"] == "1,500"
    page.show(ensemble(*[1] * 8))
    assert page.text("rest-text").count("for 1 round more") < 8
    assert "more shards" in page.text("rest-text")
    page.show(ensemble(0, 0))
    assert page.texts("#rest") == []
    assert page.text("announcer").startswith("The rest is over.")
    page.show(document(shard(0)))
    assert "Rounds rested" not in page.texts(".overview .card:nth-child(4) dt")


def test_the_promise_is_over(page):
    """Once all is spent, or behind the last question that it was made for, nothing new is promised."""
    promise = dict(TABLE["promise"], questions=20_000)
    page.open(table(199))
    assert page.texts("#promise-over") == []
    assert page.text("promise-bound") == "at most 0.0200"
    for at, why in (
        (table(200), "all paid answers are spent"),
        (table(5, promise=promise), "the first 20,000 questions"),
    ):
        page.show(at)
        assert page.text("promise-over").startswith("Nothing new is promised: ")
        assert why in page.text("promise-over")
        assert page.text("promise-bound") == "before: at most 0.0200"
        assert page.text("promise-kind") == "over"
        assert "no new error is promised" in page.text("facts")
    page.show(table(199))
    assert page.texts("#promise-over") == []


def test_another_model_at_the_same_address(page):
    """A page that stays open while a table takes the place of boxes shows the columns of each."""
    page.open(document(shard(0)))
    boxes = page.texts("#shard-table thead th")
    page.show(table(17))
    assert len(page.texts("#shard-rows tr > *")) == len(page.texts("#shard-table thead th")) == len(boxes) - 3
    page.show(document(shard(0)))
    assert page.texts("#shard-table thead th") == boxes
    assert len(page.texts("#shard-rows tr > *")) == len(boxes)
