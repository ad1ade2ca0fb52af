import pytest

from tests.support.status_documents import document, error, shard
from tests.support.status_server import CONTENT_SECURITY_POLICY

HOSTILE = [
    "<img src=x onerror=\"document.title='owned'\">",
    "<script>document.title='owned'</script>",
    "<a href=\"javascript:document.title='owned'\">click</a>",
    "<style>body{display:none}</style>",
    "</bdi></p></li></ol></section><h1>owned</h1>",
    "<svg onload=\"document.title='owned'\"><use href='data:image/svg+xml,x'/></svg>",
    "&lt;b&gt; {{7*7}} ${7*7}",
    "\u202egnp.exe\u2066",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_inert(page, text):
    """Whatever text the document has is shown letter by letter, and neither runs nor becomes an element."""
    named = shard(0, "serving", rejections={text: 3})
    odd = shard(1, text, rejections={})
    errors = [error(5, 0, text, text)]
    reasons = [{"shard": 1, "check": "restored", "text": text}]
    page.open(document(named, odd, errors=errors, not_ready=reasons, model=text, version=text, profile=text))
    assert page.run("return document.querySelectorAll('#status :is(img, script, style, a, h1, li li)').length") == 0
    assert page.run("return document.querySelectorAll('h1').length") == 1
    assert page.browser.title.strip() != "owned"
    shown = "return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent)"
    for place in ("#model", ".event", "#errors-list li p:last-child", "#verdict-reasons li", "#rejections-list dt"):
        assert page.run(shown, place) == [text]
    assert page.run(shown, "#shard-rows .state")[1] == text
    assert page.run("return document.querySelectorAll('#shard-rows .state')[1].dataset.state") == "other"
    assert page.complaints() == []


def test_no_complaints(page):
    """Chromium has nothing to complain of: no error, no warning, no violation of the policy."""
    page.open(document(shard(0), shard(1, "restoring"), errors=[error(5, 0, "bus.failed", "No answer.")]))
    page.show(document(shard(0), shard(1), shard(2, "failed")))
    page.emulate(360, 740, prefers_color_scheme="dark")
    page.show(document(shard(0)))
    assert page.complaints() == []


def test_the_policy_is_in_force(page):
    """The policy that the page is tested under stops scripts and styles that are not the page's own files."""
    page.open(document())
    page.run("""const script = document.createElement('script'); script.textContent = "document.title = 'owned'";
        document.head.append(script); document.body.setAttribute('style', 'display: none');""")
    assert page.browser.title != "owned"
    assert page.run("return getComputedStyle(document.body).display") == "block"
    complaints = page.complaints()
    assert len(complaints) == 2
    assert all("Content Security Policy" in complaint for complaint in complaints)
    header = "return fetch('status').then((answer) => answer.headers.get('Content-Security-Policy'))"
    assert page.run(header) == CONTENT_SECURITY_POLICY


def test_nothing_stands_in_the_markup(page):
    """The page's file has no script, style or handler of its own: all are files."""
    page.server.delay = 3.0
    page.load()
    inline = """return [...document.querySelectorAll('*')].filter((element) => element.tagName === 'STYLE'
        || (element.tagName === 'SCRIPT' && !element.src)
        || [...element.attributes].some((attribute) => /^(style|on.*)$/.test(attribute.name))).length"""
    assert page.run(inline) == 0
