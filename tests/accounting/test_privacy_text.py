"""PRIVACY.md: what it numbers, what cites it, and the tests that it names; and the headings that texts name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "oracle/accounting/PRIVACY.md").read_text(encoding="utf-8")
NUMBERED = re.findall(r"\*\*(Definition|Lemma|Theorem|Estimate) (\d+)", TEXT)
CITED = re.compile(r"PRIVACY\.md[,:]?\s+(Definition|Lemma|Theorem|Estimate) (\d+)")


def sources() -> list[Path]:
    """Return every text that may cite the proofs."""
    folders = ("oracle", "connectors", "tests", "deploy", "docs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md"}]
    return [*files, *ROOT.glob("*.md")]


def test_statements_are_numbered_through() -> None:
    """Each number once, from 1 on."""
    assert sorted(int(number) for _, number in NUMBERED) == list(range(1, len(NUMBERED) + 1))


def test_headings_are_where_they_are_said_to_be() -> None:
    """`NAME.md, "Heading"`, also as a link or in italics; and no text cites a document that is not in here."""
    quoted = re.compile(r"(\w+\.md)(?:\]\([^)]*\))?,? (?:\"([A-Z][^\"*]+)\"|\*([A-Z][^\"*]+)\*)")
    headings = {
        (path.name, heading.replace("`", ""))
        for path in sources()
        if path.suffix == ".md"
        for heading in re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    texts = {
        path: re.sub(r"\s+", " ", path.read_text(encoding="utf-8")) for path in sources() if path != Path(__file__)
    }
    said = [(path, name, one or other) for path, text in texts.items() for name, one, other in quoted.findall(text)]
    assert len(said) > 5
    assert [item for item in said if item[1:] not in headings] == []
    assert [path for path, text in texts.items() if re.search("(architecture|privacy) document[,)]", text)] == []


def test_what_is_cited_is_there() -> None:
    """Docstrings name a statement by its kind and number."""
    cited = [
        (path, kind, number)
        for path in sources()
        for kind, number in CITED.findall(re.sub(r"\s+", " ", path.read_text(encoding="utf-8")))
    ]
    assert len(cited) > 10
    assert [item for item in cited if item[1:] not in NUMBERED] == []


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[\w/.]+\.py)(?:::\w+)?`", TEXT))))
def test_the_tests_it_names_are_there(named: str) -> None:
    """A file of tests, and in it the test."""
    code = (ROOT / named).read_text(encoding="utf-8")
    for name in re.findall(rf"`{re.escape(named)}::(\w+)`", TEXT):
        assert f"def {name}(" in code
    assert "def test_" in code
