"""The page of a daemon that serves many models: one of them is shown, and any can be chosen."""

from selenium.webdriver.support.select import Select

from tests.support.status_documents import NOW, document, shard

_MODELS = [{"model": "box", "ready": True}, {"model": "stump", "ready": False}, {"model": "<b>odd</b>", "ready": True}]


def _documents():
    box, odd = (document(shard(0), model=name, models=_MODELS) for name in ("box", "<b>odd</b>"))
    why = [{"shard": None, "check": "model", "text": "state: it holds no plan"}]
    stump = {"version": "0.1.0", "model": "stump", "now": NOW, "ready": False, "not_ready": why, "models": _MODELS}
    return box, {"box": box, "stump": stump, "<b>odd</b>": odd}


def _choose(page, server, model):
    Select(page.find("#model-choice")).select_by_value(model)
    page.until(lambda: server.models[-1] == model and page.text("model") == model)


def test_a_daemon_of_one_model_has_nothing_to_choose(page):
    """No list is shown, and no model is asked for."""
    page.open(document())
    assert not page.find("#models").is_displayed()


def test_any_model_can_be_chosen(page, server):
    """The first is shown at first; the list tells which are not ready, and names are no markup."""
    first, server.others = _documents()
    page.open(first)
    assert (page.text("model"), server.models[-1]) == ("box", None)
    options = Select(page.find("#model-choice")).options
    assert [option.get_property("textContent") for option in options] == ["box", "stump (not ready)", "<b>odd</b>"]
    _choose(page, server, "<b>odd</b>")
    assert page.browser.title == "Ready · <b>odd</b> · Perpetua"
    assert page.find("#model-choice").get_property("value") == "<b>odd</b>"


def test_of_a_model_that_is_not_served_there_is_why(page, server):
    """And nothing of what another one shows; the other one can be chosen again."""
    first, server.others = _documents()
    page.open(first)
    _choose(page, server, "stump")
    assert page.text("verdict-title") == "Not served"
    assert page.texts("#verdict-reasons li") == ["state: it holds no plan"]
    assert page.browser.title == "Not ready · stump · Perpetua"
    for part in ("shards", "promise", "errors", "rate-now"):
        assert not page.find(f"#{part}").is_displayed()
    _choose(page, server, "box")
    assert page.find("#shards").is_displayed()
    assert page.complaints() == []
