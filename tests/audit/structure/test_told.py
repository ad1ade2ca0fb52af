"""What daemons tell: the real thing tells nothing private, and each that does is found."""

import pytest

from oracle.audit.structure.checks import run_check, structure_names
from oracle.mechanisms.windows import Window
from oracle.runtime import pipeline
from oracle.runtime.shard import Shard
from oracle.telemetry.records import Timing, Work
from oracle.telemetry.reporter import Reporter

SEED = bytes(range(80, 96))
_TOLD = "what a daemon tells is public"
_QUICK = {"boxes, sequential", "classical stump", "ensemble"}
_ALL = [target for target, name in structure_names() if name == _TOLD]


@pytest.mark.parametrize(
    "target", [one if one in _QUICK else pytest.param(one, marks=pytest.mark.slow) for one in _ALL]
)
def test_the_real_thing_passes(target):
    """Of every predictor: all that is told is the same, whatever is private."""
    found = run_check(target, _TOLD, SEED)
    assert found.passed, found.says


def _sizes(patch):
    """A state is as long as what its windows hold."""
    real = Window.export

    def export(self):
        keys, records, count = real(self)
        return keys[:count], records[:count], count

    patch.setattr(Window, "export", export)


def _texts(patch):
    """An error that nobody foresaw is told in full."""
    real = Shard._advice
    patch.setattr(Shard, "_advice", lambda self, done, last, count, _kind: real(self, done, last, count, "7318524176"))


def _ones(patch):
    """Lines of the log tell how many sides hold mediums."""
    real = Reporter.committed

    def committed(self, facts, rejections, *, phase_ended):
        real(self, facts, rejections, phase_ended=phase_ended)
        self._log.info("source.passed", count=_seen[-1])

    process = Shard.process

    def processed(self, batch):
        found = process(self, batch)
        _seen.append(sum(b'"label":1' in body for body in found.commit.replies.bodies))
        return found

    patch.setattr(Reporter, "committed", committed)
    patch.setattr(Shard, "process", processed)


_seen = [0]


def _finely(patch):
    """How long work took is told to the microsecond."""
    patch.setattr(Timing, "__post_init__", lambda _self: None)


@pytest.mark.parametrize("plant", [_sizes, _texts, _ones, _finely])
def test_what_tells_is_found(monkeypatch, plant):
    """Sizes of files, texts of errors, labels that are counted, and fine timings."""
    plant(monkeypatch)
    assert not run_check("boxes, one side", _TOLD, SEED).passed


def test_batches_in_which_a_side_is_armed_are_not_timed(monkeypatch):
    """Where they are, that is found."""
    real = pipeline.Pipeline._answered

    async def answered(self, *arguments, **options):
        batch = await real(self, *arguments, **options)
        self._reporter.took(Work.ANSWER, 0.0)
        return batch

    monkeypatch.setattr(pipeline.Pipeline, "_answered", answered)
    assert "timed" in run_check("boxes, one side", _TOLD, SEED).says
