"""Reading TOML: deep keys are refused before the parser meets them, in time that grows with the text alone."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.config.documents import _NESTED, read_toml
from oracle.errors import InputError

_PLAIN = re.compile(r"(?:[^\s.=\[\]{},]+[ \t]*\.[ \t]*){50}")
"""What is looked for, said without regard to time."""

_SHAPES = {
    "one long word": "a" * 65_536,
    "words": "a " * 32_768,
    "spaces behind a word": "a" + " " * 65_536,
    "keys of 49 parts": ("a." * 49 + "b=1\n") * 650,
    "a long part before each dot": (("a" * 300 + ".") * 49 + "=") * 4,
    "dots": "." * 65_536,
    "dots and spaces": ". \t" * 21_845,
}


@pytest.mark.parametrize("shape", _SHAPES)
def test_time_grows_with_the_text_alone(shape):
    """No text of 64 kB takes a second of processor time (one long word took 75)."""
    started = time.process_time()
    assert _NESTED.search(_SHAPES[shape]) is None
    assert time.process_time() - started < 1.0


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(st.sampled_from(["a", "bc", "-", '"', "\t", " ", "", "=", "\n", "[", "a.", ".b"]), max_size=6),
    count=st.integers(0, 110),
    end=st.sampled_from(["", "=1", ".", " . x"]),
)
def test_same_texts_are_refused_as_said_plainly(parts, count, end):
    """Beginning where parts begin finds all that beginning anywhere finds."""
    text = ".".join(parts) + "." + "k." * (count % 55) + "x" + ".".join([*parts] * (count // 4)) + end
    assert bool(_NESTED.search(text)) == bool(_PLAIN.search(text))


@pytest.mark.parametrize("between", [".", " . ", "\t."])
def test_deep_key_is_refused_by_name(tmp_path, between):
    """A key of thousands of parts is refused, and says why; one of 49 dots is read."""
    path = tmp_path / "x.toml"
    path.write_text(between.join(["a"] * 20_000) + " = 1\n")
    with pytest.raises(InputError, match="more than 50 parts"):
        read_toml(path)
    path.write_text(between.join(["a"] * 50) + " = 1\n")
    assert read_toml(path)
