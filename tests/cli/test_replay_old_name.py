"""`perpetua replay`, which became `verify` and `fork`."""

import pytest

from tests.support.folders import make_state
from tests.support.shards import bodies, small_plan


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a new state, its genesis file, and a log that nobody answered."""
    make_state(tmp_path / "state", small_plan())
    (tmp_path / "q.jsonl").write_bytes(b"".join(body + b"\n" for body in bodies(50)))
    return tmp_path


def test_the_old_name_verifies(cli, served):
    """With --verify it does what `verify` does, and says so beside it."""
    common = (served / "q.jsonl", "--from", served / "state.genesis", "--answers", served / "out.jsonl")
    old, new = cli("replay", *common, "--verify"), cli("verify", *common)
    assert old == (0, new.out, "note: `perpetua replay` is now `perpetua verify`\n")
    assert new == (0, "identical: 700 messages, 672 rounds from round 0; extra epsilon: 0\n", "")


def test_the_old_name_forks(cli, folder):
    """Without --verify it does what `fork` does: state the cost, and spend it where that is accepted."""
    common = (folder / "q.jsonl", "--from", folder / "state", "--out", folder / "new.jsonl")
    note = "note: `perpetua replay` is now `perpetua fork`\n"
    old, new = cli("replay", *common), cli("fork", *common)
    assert (old.code, old.err) == (2, note + new.err)
    paid = cli("replay", *common, "--accept-cost")
    assert (paid.code, paid.err) == (0, note)
    assert len((folder / "new.jsonl").read_bytes().splitlines()) == 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--verify",), "--answers is not set: a verification must know"),
        (("--verify", "--answers", "a.jsonl", "--accept-cost"), "--verify = true: publishes nothing"),
        (("--verify", "--answers", "a.jsonl", "--out", "new.jsonl"), "--verify = true: publishes nothing"),
        (("--verify", "--answers", "a.jsonl", "--skip", "3"), "--skip = 3: a verification follows the commit"),
        (("--verify", "--answers", "a.jsonl", "--offsets", "0:9"), "--offsets = '0:9': a verification goes from"),
        (("--answers", "a.jsonl"), "--verify = false: must be added"),
    ],
)
def test_mixed_options_are_refused(cli, folder, options, message):
    """What belongs to one of the two is refused of the other, and nothing is paid."""
    result = cli("replay", folder / "q.jsonl", "--from", folder / "state", *options)
    assert result.code == 2
    assert message in result.err
    assert not (folder / "state.forks.jsonl").exists()


def test_the_new_names_take_their_own_options_only(cli, folder):
    """A verification cannot spend, and a fork compares nothing."""
    common = (folder / "q.jsonl", "--from", folder / "state")
    for command, option in (("verify", "--accept-cost"), ("verify", "--out"), ("fork", "--answers")):
        result = cli(command, *common, option, "x")
        assert (result.code, f"No such option: {option}" in result.err) == (2, True)
