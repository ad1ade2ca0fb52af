"""A clean stop whose last snapshot cannot be written."""

from oracle.state.folder import FolderStore
from oracle.state.keys import read_key_file
from tests.support.kafka import wait_until
from tests.support.shards import bodies


def test_stop_without_the_last_snapshot_is_no_success(model):
    """Every answer stands, the exit code is 4 and says why; the next start goes on as ever."""
    config = model.config()
    contents = bodies(60)
    model.ask(contents[:30])
    state = model.folder / "state"
    with FolderStore.open(state, read_key_file(state / "key")):  # what stands for a disk that takes nothing
        daemon = model.serve(config)
        wait_until(lambda: model.count() >= 30)
        daemon.terminate()
        assert daemon.wait(60) == 4
    last = model.log()[-1]["text"]
    assert "every answer stands, but not the last snapshot" in last
    assert "snapshot.failed" in model.events()
    model.ask(contents[30:])
    daemon = model.serve(config)
    wait_until(lambda: model.count() >= 60)
    daemon.terminate()
    assert daemon.wait(60) == 0
    assert model.values() == model.expected(contents)
