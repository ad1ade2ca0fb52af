"""What the group does about a member that was killed, once its process is started again."""

from tests.support.kafka import wait_until
from tests.support.shards import bodies


def test_a_killed_process_is_not_waited_for(model):
    """Its session goes on for longer than the test may take, and the next process answers all the same."""
    config = model.config(source="session_seconds = 300")
    contents = bodies(60)
    for end in (20, 40, 60):
        model.ask(contents[end - 20 : end])
        daemon = model.serve(config)
        wait_until(lambda count=end: model.count() >= count)
        daemon.kill()
        daemon.wait(60)
    assert model.values() == model.expected(contents)


def test_who_is_taken_for_dead_and_is_not_goes_on(model):
    """As without locks: the group gives its place to somebody else, and nothing is lost or answered twice."""
    config = model.config(source="session_seconds = 6")
    contents = bodies(400)
    first = model.serve(config)
    model.ask(contents[:200])
    wait_until(lambda: any(path.stat().st_size for path in _names(model)))
    (kept,) = _names(model)
    name = kept.read_bytes()
    (kept.parent / "copy").write_bytes(name)
    second = model.serve(config, "second.log")
    wait_until(lambda: len(_names(model)) == 2 and kept.parent / "copy" not in _names(model))
    wait_until(lambda: kept.read_bytes() not in {name, b""})
    model.ask(contents[200:])
    wait_until(lambda: model.count() >= 400)
    assert (first.poll(), second.poll()) == (None, None)
    for daemon in (first, second):
        daemon.terminate()
        assert daemon.wait(60) == 0
    assert model.values() == model.expected(contents)


def _names(model):
    folder = model.folder / "state" / "members"
    return list(folder.iterdir()) if folder.exists() else []
