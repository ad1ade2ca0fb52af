"""The leak test: two neighbouring worlds under one key, and everything in sight of the one as in sight of the other.

*Worlds* (`worlds.py`): a training row is there or blanked; the hidden query is one or another; it is there or the round
has none; it gets label 1 or 0. Their transcripts are one: the labels of all other rounds, re-arms and phase ends.

*Compared* (`sightings.py`), at fixed points of the stream and at the end: every sample, type and help text of /metrics
in both formats; /status, /readyz, /livez, the page, a path that is not there, and all headers; every log line;
standard output and error, and exit codes, of `init`, `serve`, `status`, of a restart that re-executes, and of one that
is refused; ledger, dead letters and answers, byte by byte; the commit record; names, modes, links and sizes of all
files; the clear headers of all snapshots.

*Left out*, by name and nowhere else: times; the label of the hidden query's own answer, of which the length is
compared; the running tag where the queries differ; the port. How long anything takes is another matter.

`inside.py` runs the daemon here, on a clock that only the test moves, so that even times are compared; `outside.py`
runs processes over files; `on_kafka.py` one over a real broker, whose times and names of topics are left out too, and
what its client says by itself. `mutants.py` has the leaks that must be found. `python -m tests.leaks` tries more.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.leaks import inside, outside
from tests.leaks.mutants import MUTANTS
from tests.leaks.pairs import KINDS, equal_pair
from tests.leaks.sightings import Sightings, compare
from tests.leaks.worlds import CHUNK, random_pair, state_after, transcript

_WATCHED = {"headers", "pages", "readyz", "metrics", "status", "files", "snapshot headers", "log", "answers", "ledger"}
_PRIVATE = {
    "training row": {"points"},
    "query": {"collected", "mediums", "harvest"},
    "presence": {"collected", "mediums"},
    "label": {"harvest"},
}
"""What differs in the private state behind the first look."""


def _parts(left, right):
    """Return the parts of two states that differ."""
    return {name.split("_")[0] for name in left if left[name].tobytes() != right[name].tobytes()}


def _differ(seen):
    """Return in what the private states of two runs differ at the first look."""
    return _parts(seen[0].private[0], seen[1].private[0])


@pytest.mark.parametrize("kind", KINDS)
def test_worlds_are_neighbours_with_one_transcript(kind):
    """Over all phases and re-arms the transcripts are one, while what is hidden differs."""
    pair = equal_pair(kind)
    left, right = (transcript(world, pair.hidden) for world in pair.worlds)
    assert pair.whole
    assert left == right
    events = [what for _, what in left if isinstance(what, tuple)]
    assert sum(what[0] == "re-arm" for what in events) >= 5
    assert sum(what[0] == "phase ended" for what in events) == 2
    assert _parts(*(state_after(world, CHUNK) for world in pair.worlds)) == _PRIVATE[kind]
    messages = list(zip(*(world.messages for world in pair.worlds), strict=True))
    assert [at for at, (one, other) in enumerate(messages) if one != other] == [pair.hidden] * (kind != "training row")
    rows = [tuple(zip(world.rows.tolist(), world.labels.tolist(), strict=True)) for world in pair.worlds]
    assert sum(one != other for one, other in zip(*rows, strict=True)) == (kind == "training row")


@pytest.mark.parametrize("form", ["json", "arrow"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_shows_inside(kind, form, tmp_path):
    """On one clock, everything that the daemon says and writes is the same in both worlds, times too."""
    pair = equal_pair(kind)
    seen = [inside.sight(pair, which, tmp_path / str(which), form=form) for which in (0, 1)]
    assert compare(*seen) == []
    assert _differ(seen) == _PRIVATE[kind]
    assert seen[0].channels.keys() >= _WATCHED


@pytest.mark.parametrize(
    ("kind", "files"),
    [("training row", "jsonl"), ("query", "jsonl"), ("label", "jsonl"), ("presence", "parquet"), ("label", "parquet")],
)
def test_nothing_shows_outside(kind, files, tmp_path):
    """Processes, from `init` to a restart that is refused, leave and say the same in both worlds, up to times."""
    pair = equal_pair(kind)
    seen = [outside.sight(pair, which, tmp_path / str(which), files=files) for which in (0, 1)]
    assert compare(*seen) == []
    codes = seen[0].channels["exit codes"]
    if files == "jsonl":
        assert codes == ["init: 0", "serve: 0", "restart: 0", "failing restart: 3", "status command: 0"]
        assert _differ(seen) == _PRIVATE[kind]
        assert seen[0].channels.keys() >= {*_WATCHED, "init", "stdout", "commit record", "dead", "status command"}
        assert any("log diverged" in str(line) for line in seen[0].channels["log"])
    else:
        assert codes == ["init: 0", "serve: 0", "status command: 0"]


@settings(max_examples=6, deadline=None)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32 - 1))
def test_nothing_shows_in_any_world(kind, seed):
    """The same of worlds that nobody chose, up to where their transcripts part."""
    pair = random_pair(kind, seed)
    with tempfile.TemporaryDirectory() as folder:
        seen = [inside.sight(pair, which, Path(folder, str(which)), form="arrow") for which in (0, 1)]
    assert compare(*seen) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_leak_is_found(name, tmp_path):
    """Each leak is found, and in the very channels in which it shows."""
    mutant = MUTANTS[name]
    pair = equal_pair(mutant.kind).cut(2 * CHUNK)
    seen: list[Sightings] = []
    for which in (0, 1):
        folder = tmp_path / str(which)
        if mutant.files is not None:
            seen.append(outside.sight(pair, which, folder, files=mutant.files, mutant=name))
        else:
            seen.append(inside.sight(pair, which, folder, form=mutant.form, mutant=name))
    found = compare(*seen)
    assert {difference.channel for difference in found} == mutant.channels
