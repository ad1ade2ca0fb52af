"""The leak test: two neighbouring worlds under one key, and everything in sight of the one as in sight of the other.

*Worlds* (`worlds.py`): a training row is there or blanked; the hidden query is one or another; it is there or the round
has none; it gets another answer. Their transcripts are one: the answers of all other rounds, which of all rest, re-arms
and phase ends.
What that is for each predictor, and which of them may differ in everything at once, `subjects.py` says.

*Tables and distributions.* Their neighbours' noise is fitted to each other (`coupling.py`), so that all that is paid
for, marginals too, is released alike in both, before and after the last paid answer; then `check`, `verify`, `budget`,
`hypothesis`, a receipt and a refused `init` are compared as well.

*Compared* (`sightings.py`), at fixed points of the stream and at the end: every sample, type and help text of /metrics
in both formats, and by OTLP; spans of all batches and queries; /status, /readyz, /livez, the page, a path that is not
there, and all headers; every log line; standard output and error, and exit codes, of `init`, `serve`, `status`, of a
restart that re-executes, and of one that is refused; ledger, dead letters and answers, byte by byte; the commit record;
names, modes, links and sizes of all files; the clear headers of all snapshots.

*Left out*, by name and nowhere else: times; the hidden query's own answer (of bisection also what it taught: the
answers behind it), of which the length is compared; the running tag where the queries differ; the
port. How long anything takes is another matter.

`inside.py` runs the daemon here, on a clock that only the test moves, so that even times are compared; `outside.py`
runs processes over files; `on_kafka.py` one over a real broker, whose times and names of topics are left out too, and
what its client says by itself; `on_mqtt.py` one over a real broker of the other kind. `mutants.py` has the leaks that
must be found. `python -m tests.leaks` tries more.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import NO_LABEL
from tests.leaks import inside, outside
from tests.leaks.mutants import MUTANTS
from tests.leaks.pairs import PAIRS, equal_pair
from tests.leaks.sightings import Sightings, compare
from tests.leaks.spelling import as_values
from tests.leaks.subjects import SUBJECTS, leak_plan
from tests.leaks.worlds import CHUNK, answered, random_pair, state_after, transcript

_WATCHED = {"headers", "pages", "readyz", "metrics", "status", "files", "snapshot headers", "log", "answers", "ledger"}
_PRIVATE = {
    ("rectangles", "training row"): {"points"},
    ("rectangles", "query"): {"collected", "mediums", "harvest"},
    ("rectangles", "presence"): {"collected", "mediums"},
    ("rectangles", "label"): {"harvest"},
    ("rectangles, learned", "training row"): {"points", "edges"},
    ("strings", "training row"): {"points"},
    ("strings", "query"): {"collected", "mediums", "harvest"},
    ("strings", "presence"): {"collected", "mediums"},
    ("strings", "label"): {"harvest"},
    ("stumps", "training row"): {"points"},
    ("stumps", "query"): {"collected"},
    ("stumps", "presence"): {"collected", "mediums"},
    ("stumps", "label"): {"harvest"},
    ("ensemble", "training row"): {"life", "teachers"},
    ("ensemble", "query"): {"next"},
    ("ensemble", "presence"): {"next", "thresholds"},
    ("ensemble", "label"): {"next", "thresholds"},
    ("classical", "training row"): {"lower"},
    ("classical", "query"): set(),
    ("classical", "presence"): set(),
    ("classical", "label"): set(),
    ("classical", "everything"): {"lower", "upper"},
    ("bisection", "training row"): {"database"},
    ("bisection", "query"): {"cost", "sums", "mean", "raw"},
    ("bisection", "presence"): set(),
    ("bisection", "label"): set(),
    ("statistics", "training row"): {"cells"},
    ("statistics, spent", "training row"): {"cells"},
    ("statistics, marginals", "training row"): {"cells"},
    ("sparse vector", "training row"): {"cells"},
    ("sparse vector, spent", "training row"): {"cells"},
    ("distribution", "training row"): {"rows"},
    ("distribution, settled", "training row"): {"rows"},
    ("bisection", "everything"): {"database", "cost", "sums", "mean", "raw", "asked", "bits"},
}
"""What differs in the private state behind the first look; nothing where queries leave nothing behind."""

_EVENTS = {
    "rectangles": (5, 2),
    "rectangles, learned": (5, 2),
    "strings": (7, 2),
    "stumps": (4, 2),
    "ensemble": (1, 2),
    "classical": (0, 0),
    "bisection": (0, 1),
}
"""How often sides are armed afresh at least, and how many phases end."""

_LOUD = {("stumps", "presence"), ("stumps", "label")}
"""Where a side is armed afresh, or a phase ends, in each batch: there are no spans of such."""

_PAID = {
    "statistics": 4,
    "statistics, spent": 12,
    "statistics, marginals": 20,
    "sparse vector": 4,
    "sparse vector, spent": 2,
    "distribution": 14,
    "distribution, settled": 3,
}
"""How many answers are paid for; where all are that there may be, questions come behind them."""

_SPENT = ("statistics, spent", "statistics, marginals", "sparse vector, spent")

_SAID = ["verify: 0", "receipt: 0", "budget: 0", "init again: 3"]
_AROUND = {
    "statistics": ["check: 1", *_SAID, "hypothesis: 0", "hypothesis: 0"],
    "sparse-vector": ["check: 0", *_SAID],
    "distribution": ["check: 0", *_SAID],
}
"""What the commands beside a table end with; `check` says that a plan that pays for so much keeps no error."""


def _parts(left, right):
    """Return the parts of two states that differ."""
    return {name.split("_")[0] for name in left if left[name].tobytes() != right[name].tobytes()}


def _differ(seen):
    """Return in what the private states of two runs differ at the first look."""
    return _parts(seen[0].private[0], seen[1].private[0])


@pytest.mark.parametrize(("subject", "kind"), PAIRS)
def test_worlds_are_neighbours_with_one_transcript(subject, kind):
    """Over all phases and re-arms the transcripts are one, while what is hidden differs."""
    pair = equal_pair(subject, kind)
    left, right = (transcript(world, pair.left_out) for world in pair.worlds)
    assert pair.whole
    assert left == right
    events = [what for _, what in left if isinstance(what, tuple)]
    rearms, phases = _EVENTS.get(subject, (0, 0))
    assert sum(what[0] == "re-arm" for what in events) >= rearms
    assert any(what == "rests" for _, what in left) == (subject == "ensemble")
    assert sum(what[0] == "phase ended" for what in events) == phases
    assert sum(what[0] == "paid" for what in events) == _PAID.get(subject, 0)
    assert _parts(*(state_after(world, CHUNK) for world in pair.worlds)) == _PRIVATE[subject, kind]
    messages = list(zip(*(world.messages for world in pair.worlds), strict=True))
    differ = [at for at, (one, other) in enumerate(messages) if one != other]
    rows = [tuple(zip(world.rows.tolist(), world.labels.tolist(), strict=True)) for world in pair.worlds]
    blanked = sum(one != other for one, other in zip(*rows, strict=True))
    if kind == "everything":
        asked = [at for at, (one, _) in enumerate(messages) if isinstance(one, tuple)]
        assert len(set(differ) & set(asked)) == len(differ) > len(asked) / 2
        assert blanked == len(rows[0])
        return
    assert differ == [pair.hidden] * (kind != "training row")
    assert blanked == (kind == "training row")


@pytest.mark.parametrize("subject", _SPENT)
def test_tables_are_asked_on_when_all_is_spent(subject):
    """The last paid answer comes between the first two looks, and behind it questions that the rows do not answer."""
    plan = leak_plan(subject)
    assert isinstance(plan, TablePlan)
    for world in equal_pair(subject, "training row").worlds:
        (early, before), (late, answers) = (answered(world, count) for count in (CHUNK, 2 * CHUNK))
        assert before is not None
        assert answers is not None
        assert before.verified is not None
        assert answers.verified is not None
        assert 0 < early.facts().paid < late.facts().paid == plan.paid == _PAID[subject]
        assert before.verified[before.labels != NO_LABEL].all()
        assert (~answers.verified[answers.labels != NO_LABEL]).sum() >= 10


def test_the_worlds_of_texts_differ_in_texts():
    """The hidden queries, but for presence, are the same number and two texts: a short one and one of the longest."""
    features = leak_plan("strings").features
    for kind in ("query", "label"):
        pair = equal_pair("strings", kind)
        assert pair.hidden is not None
        hidden = [world.messages[pair.hidden] for world in pair.worlds]
        (one, same), (other, also) = (as_values(features, message) for message in hidden if isinstance(message, tuple))
        assert same == also
        assert len(str(one).encode()) < 8 < len(str(other).encode()) == features[0].longest


@pytest.mark.parametrize("form", ["json", "arrow"])
@pytest.mark.parametrize(("subject", "kind"), PAIRS)
def test_nothing_shows_inside(subject, kind, form, tmp_path):
    """On one clock, everything that the daemon says and writes is the same in both worlds, times too."""
    pair = equal_pair(subject, kind)
    seen = [inside.sight(pair, which, tmp_path / str(which), form=form) for which in (0, 1)]
    assert compare(*seen) == []
    assert _differ(seen) == _PRIVATE[subject, kind]
    assert seen[0].channels.keys() >= _WATCHED
    if (subject, kind) not in _LOUD:
        assert any('"perpetua.outcome"' in str(span) for span in seen[0].channels["spans"])


@pytest.mark.parametrize(
    ("subject", "kind", "files"),
    [
        pytest.param("rectangles", "training row", "jsonl", marks=pytest.mark.slow),
        pytest.param("rectangles", "query", "jsonl", marks=pytest.mark.slow),
        pytest.param("rectangles", "label", "jsonl", marks=pytest.mark.slow),
        ("rectangles", "label", "parquet"),
        pytest.param("stumps", "training row", "jsonl", marks=pytest.mark.slow),
        ("strings", "query", "parquet"),
        ("stumps", "presence", "parquet"),
        pytest.param("ensemble", "training row", "jsonl", marks=pytest.mark.slow),
        pytest.param("ensemble", "query", "jsonl", marks=pytest.mark.slow),
        ("ensemble", "presence", "parquet"),
        pytest.param("classical", "label", "jsonl", marks=pytest.mark.slow),
        ("classical", "everything", "parquet"),
        pytest.param("bisection", "query", "jsonl", marks=pytest.mark.slow),
        ("bisection", "training row", "parquet"),
        ("statistics, marginals", "training row", "jsonl"),
        pytest.param("statistics, spent", "training row", "jsonl", marks=pytest.mark.slow),
        pytest.param("sparse vector", "training row", "jsonl", marks=pytest.mark.slow),
        pytest.param("sparse vector, spent", "training row", "jsonl", marks=pytest.mark.slow),
        ("distribution", "training row", "jsonl"),
        pytest.param("distribution, settled", "training row", "jsonl", marks=pytest.mark.slow),
    ],
)
def test_nothing_shows_outside(subject, kind, files, tmp_path):
    """Processes, from `init` to a restart that is refused, leave and say the same in both worlds, up to times."""
    pair = equal_pair(subject, kind)
    seen = [outside.sight(pair, which, tmp_path / str(which), files=files) for which in (0, 1)]
    assert compare(*seen) == []
    codes = seen[0].channels["exit codes"]
    if files == "jsonl":
        around = _AROUND.get(leak_plan(subject).predictor, [])
        assert codes == ["init: 0", "serve: 0", "restart: 0", *around, "failing restart: 3", "status command: 0"]
        assert _differ(seen) == _PRIVATE[subject, kind]
        assert seen[0].channels.keys() >= {*_WATCHED, "init", "stdout", "commit record", "dead", "status command"}
        assert any("log diverged" in str(line) for line in seen[0].channels["log"])
    else:
        assert codes == ["init: 0", "serve: 0", "status command: 0"]


@settings(max_examples=12, deadline=None)
@given(
    chosen=st.sampled_from([(name, kind) for name, subject in SUBJECTS.items() for kind in subject.kinds]),
    seed=st.integers(0, 2**32 - 1),
)
def test_nothing_shows_in_any_world(chosen, seed):
    """The same of worlds that nobody chose, up to where their transcripts part, and of all variants of predictors."""
    pair = random_pair(chosen[0], chosen[1], seed)
    with tempfile.TemporaryDirectory() as folder:
        seen = [inside.sight(pair, which, Path(folder, str(which)), form="arrow") for which in (0, 1)]
    assert compare(*seen) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_leak_is_found(name, tmp_path):
    """Each leak is found, and in the very channels in which it shows."""
    mutant = MUTANTS[name]
    pair = equal_pair(mutant.subject, mutant.kind).cut(2 * CHUNK)
    seen: list[Sightings] = []
    for which in (0, 1):
        folder = tmp_path / str(which)
        if mutant.files is not None:
            seen.append(outside.sight(pair, which, folder, files=mutant.files, mutant=name))
        else:
            seen.append(inside.sight(pair, which, folder, form=mutant.form, mutant=name))
    found = compare(*seen)
    assert {difference.channel for difference in found} == mutant.channels
