import msgspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.support.folders import long_plan, make_state, write_config, write_parquet
from tests.support.shards import bodies

_ROWS_PER_MESSAGE = 50


def _replay(folder, *more, log="q.jsonl", origin="state.genesis", answers="out.jsonl"):
    if answers == "changed.jsonl":
        more = ("--commit", folder / "out.jsonl.commit", *more)
    return ("verify", folder / log, "--from", folder / origin, "--answers", folder / answers, *more)


def _verdict(cli, code, *arguments):
    result = cli(*arguments, "--json")
    assert result.code == code, result
    assert result.err == ""
    return msgspec.json.decode(result.out)


def test_identical_from_genesis(cli, served):
    """All answers are re-executed; verifying costs no epsilon."""
    assert _verdict(cli, 0, *_replay(served)) == {
        "identical": True,
        "messages": 700,
        "rounds": 672,
        "first_round": 0,
        "first_difference": None,
        "extra_epsilon": 0.0,
    }
    words = cli(*_replay(served))
    assert words == (0, "identical: 700 messages, 672 rounds from round 0; extra epsilon: 0\n", "")


def test_identical_from_a_state_folder(cli, served):
    """From a snapshot in the middle, the answers behind it are compared."""
    (served / "state").rename(served / "old")
    (served / "out.jsonl").rename(served / "old.jsonl")
    (served / "out.jsonl.commit").rename(served / "old.jsonl.commit")
    (served / "ledger.jsonl").unlink()
    make_state(served / "state2", long_plan())
    lines = (served / "q.jsonl").read_bytes().splitlines(keepends=True)
    whole = (served / "q.jsonl").read_bytes()
    (served / "q.jsonl").write_bytes(b"".join(lines[:300]))
    assert cli("serve", write_config(served, state={"folder": str(served / "state2")})).code == 0
    (served / "q.jsonl").write_bytes(whole)
    verdict = _verdict(cli, 0, *_replay(served, origin="state2", answers="old.jsonl"))
    assert (verdict["identical"], verdict["messages"]) == (True, 400)
    assert 0 < verdict["first_round"] < 300
    assert verdict["first_round"] + verdict["rounds"] == 672
    changed = (served / "old.jsonl").read_bytes().splitlines(keepends=True)
    changed[450] = changed[451]
    (served / "old.jsonl").write_bytes(b"".join(changed))
    verdict = _verdict(cli, 1, *_replay(served, origin="state2", answers="old.jsonl"))
    assert verdict["first_difference"] == 450


@pytest.mark.parametrize("number", [0, 1, 350, 699])
def test_changed_answer_is_found_and_numbered(cli, served, number):
    """One other label, wherever it is."""
    lines = (served / "out.jsonl").read_bytes().splitlines(keepends=True)
    lines[number] = lines[number].replace(b'"model"', b'"label":0   ,"model"')
    (served / "changed.jsonl").write_bytes(b"".join(lines))
    verdict = _verdict(cli, 1, *_replay(served, answers="changed.jsonl"))
    assert (verdict["identical"], verdict["first_difference"]) == (False, number)
    words = cli(*_replay(served, answers="changed.jsonl"))
    assert words.code == 1
    assert words.out.startswith(f"DIFFERENT: the answer to message {number} (from 0)")


@pytest.mark.parametrize(("keep", "more", "number"), [(690, 0, 690), (0, 0, 0), (700, 1, 700)])
def test_missing_and_surplus_answers_are_found(cli, served, keep, more, number):
    """Answers that end early, or go on."""
    lines = (served / "out.jsonl").read_bytes().splitlines(keepends=True)
    (served / "changed.jsonl").write_bytes(b"".join([*lines[:keep], *lines[:more]]))
    assert _verdict(cli, 1, *_replay(served, answers="changed.jsonl"))["first_difference"] == number


def _another_log(folder, change):
    """Write a log that is not the one that was answered."""
    lines = (folder / "q.jsonl").read_bytes().splitlines(keepends=True)
    if change == "dropped":
        lines = lines[:100] + lines[101:]
    elif change == "inserted":
        lines = [*lines[:100], b'{"id":"new","x":[0.5,0.5]}\n', *lines[100:]]
    elif change == "swapped":
        lines[100], lines[101] = lines[101], lines[100]
    else:
        lines[100] = lines[100].replace(b"0.5", b"0.6")
        lines[101:] = [line.replace(b"1", b"2") for line in lines[101:]]
    (folder / "log.jsonl").write_bytes(b"".join(lines))


@pytest.mark.parametrize("change", ["dropped", "inserted", "swapped", "other numbers"])
def test_of_another_log_nothing_is_told(refused, served, change):
    """Whether an answer to it was guessed right or wrong, all that is said is that it is another log."""
    _another_log(served, change)
    said = set()
    for guess in (b"", (served / "out.jsonl").read_bytes(), b'{"id":"q0","label":1   }\n' * 700):
        (served / "changed.jsonl").write_bytes(guess)
        said.add(refused(3, *_replay(served, log="log.jsonl", answers="changed.jsonl")))
    assert len(said) == 1
    assert "log" in said.pop()


def test_other_ids_are_found(cli, served):
    """The queries are the answered ones, so an answer with another id is numbered."""
    lines = (served / "q.jsonl").read_bytes().splitlines(keepends=True)
    lines[100:] = [line.replace(b"q", b"Q") for line in lines[100:]]
    (served / "log.jsonl").write_bytes(b"".join(lines))
    assert _verdict(cli, 1, *_replay(served, log="log.jsonl"))["first_difference"] in {100, 101}


def test_without_a_commit_record_nothing_is_verified(refused, served):
    """Else any log could be tried; a record that was moved is named."""
    (served / "out.jsonl.commit").rename(served / "moved")
    assert "no commit, so nothing says which log was answered" in refused(3, *_replay(served))
    assert "no commit" in refused(3, *_replay(served, "--commit", served / "nowhere"))


def test_a_commit_behind_the_snapshot_is_refused(cli, refused, served):
    """A record of an earlier run does not go with a later snapshot."""
    make_state(served / "state2", long_plan())
    lines = (served / "q.jsonl").read_bytes().splitlines(keepends=True)
    (served / "q2.jsonl").write_bytes(b"".join(lines[:50]))
    config = write_config(
        served,
        state={"folder": str(served / "state2")},
        source={"path": str(served / "q2.jsonl")},
        sink={"path": str(served / "early.jsonl"), "ledger": None},
    )
    assert cli("serve", config).code == 0
    said = refused(3, *_replay(served, "--commit", served / "early.jsonl.commit", origin="state"))
    assert "behind the snapshot" in said


def test_log_behind_the_end_of_the_plan(cli, tmp_path):
    """Queries that a daemon could not answer any more do not stand in the way of verifying those it did."""
    make_state(tmp_path / "state", long_plan())
    rounds = long_plan().rounds
    lines = [*bodies(rounds), b"?", *bodies(30, seed=2), b"?"]
    (tmp_path / "q.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    config = write_config(tmp_path, service={"batch_rows": 1000})
    for _ in range(2):
        result = cli("serve", config)
        assert result.code == 3
        assert f"perpetua: round {rounds}: the plan's last phase has ended; make a new plan and state" in result.err
    verdict = _verdict(cli, 0, *_replay(tmp_path))
    assert (verdict["identical"], verdict["messages"], verdict["rounds"]) == (True, rounds + 1, rounds)


@pytest.fixture(params=[".parquet", ".arrow"])
def served_arrow(request, tmp_path, cli):
    """Return a folder with a Parquet log and what `serve` wrote, and the name of the answers."""
    make_state(tmp_path / "state", long_plan())
    write_parquet(tmp_path / "q.parquet", bodies(730))
    config = write_config(
        tmp_path,
        source={"kind": "parquet", "path": str(tmp_path / "q.parquet"), "rows_per_message": _ROWS_PER_MESSAGE},
        sink={"kind": "parquet", "path": str(tmp_path / f"out{request.param}")},
    )
    assert cli("serve", config).code == 0
    return tmp_path, f"out{request.param}"


def _arrow(folder, answers, log="q.parquet"):
    return _replay(folder, "--rows-per-message", str(_ROWS_PER_MESSAGE), log=log, answers=answers)


def test_identical_parquet_and_arrow(cli, served_arrow):
    """Many answers a message, as a folder of parts and as one stream; a log as an Arrow file is the same log."""
    folder, answers = served_arrow
    verdict = _verdict(cli, 0, *_arrow(folder, answers))
    assert (verdict["identical"], verdict["messages"], verdict["rounds"]) == (True, 15, 730)
    table = pa.parquet.read_table(folder / "q.parquet")
    with pa.OSFile(str(folder / "q.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=33)
    assert _verdict(cli, 0, *_arrow(folder, answers, log="q.arrow")) == verdict


def test_changed_arrow_answer_is_found(cli, served_arrow):
    """The message that holds the changed answer is numbered."""
    folder, answers = served_arrow
    path = folder / answers

    def changed(table):
        labels = [1 - label for label in table["label"].to_pylist()]
        return table.set_column(1, table.schema.field("label"), pa.array(labels, pa.int8()))

    if path.is_dir():
        part = path / "part-00000009.parquet"
        pa.parquet.write_table(changed(pa.parquet.read_table(part)), part)
    else:
        with pa.ipc.open_stream(path.read_bytes()) as reader:
            batches = list(reader)
        batches[9] = changed(pa.Table.from_batches([batches[9]])).to_batches()[0]
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    assert _verdict(cli, 1, *_arrow(folder, answers))["first_difference"] == 9


def test_missing_arrow_answer_is_found(cli, served_arrow):
    """The last message's answers are gone."""
    folder, answers = served_arrow
    path = folder / answers
    if path.is_dir():
        (path / "part-00000014.parquet").unlink()
    else:
        with pa.ipc.open_stream(path.read_bytes()) as reader:
            batches = list(reader)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batches[0].schema) as writer:
            for batch in batches[:-1]:
                writer.write_batch(batch)
    assert _verdict(cli, 1, *_arrow(folder, answers))["first_difference"] == 14


@pytest.mark.parametrize(
    ("names", "code", "message"),
    [
        ({"log": "none.jsonl"}, 4, "none.jsonl: cannot be opened: No such file"),
        ({"answers": "none.jsonl"}, 4, "none.jsonl: cannot be read"),
        ({"answers": "none.arrow"}, 4, "none.arrow: cannot be read"),
        ({"answers": "out.txt"}, 2, "--answers = "),
        ({"origin": "none"}, 3, "genesis file"),
        ({"origin": "q.jsonl"}, 3, "genesis file"),
        ({"origin": "."}, 3, "a folder of genesis files; name one of them"),
        ({"origin": "empty"}, 3, "holds no state; make one with `perpetua init`"),
    ],
)
def test_wrong_argument(refused, served, names, code, message):
    """One line names what cannot be used."""
    (served / "empty").mkdir()
    for path in served.iterdir():
        if path.is_file():
            path.chmod(0o600)
    assert message in refused(code, *_replay(served, **names))


def test_wrong_key(refused, served):
    """A state folder's snapshot needs its key."""
    make_state(served / "other", long_plan())
    line = refused(3, *_replay(served, "--key", served / "other" / "key", origin="state"))
    assert line.endswith(f"encrypted with another key, {served / 'other' / 'key'}")


def test_nothing_to_compare(refused, served):
    """A snapshot behind the last answer proves nothing; the refusal says what would."""
    line = refused(2, *_replay(served, origin="state"))
    assert "(round 672), so there is nothing to compare; start at a genesis file" in line


def test_rows_per_message_are_read_from_the_answers(cli, refused, served_arrow):
    """They need not be given; others are named as what may make the difference."""
    folder, answers = served_arrow
    arguments = _replay(folder, log="q.parquet", answers=answers)
    assert _verdict(cli, 0, *arguments)["messages"] == 15
    words = cli(*arguments, "--rows-per-message", "60")
    assert words.code == 1
    hint = "; --rows-per-message = 60, but the first answered message has 50 rows: leave it out"
    assert words.out.rstrip().endswith(hint)
    table = pa.parquet.read_table(folder / "q.parquet")
    pa.parquet.write_table(pa.concat_tables([table, table]), folder / "q.parquet")
    said = refused(3, *arguments, "--rows-per-message", "60")
    assert said.startswith(f"{folder / 'q.parquet'}: not the log that was answered: no record ends at position 730")
    assert said.endswith(hint)


def test_one_message_is_not_called_answers(cli, tmp_path):
    """Rounds and messages are counted apart, and one is one."""
    make_state(tmp_path / "state", long_plan())
    write_parquet(tmp_path / "q.parquet", bodies(200))
    config = write_config(
        tmp_path,
        source={"kind": "parquet", "path": str(tmp_path / "q.parquet")},
        sink={"kind": "parquet", "path": str(tmp_path / "out.parquet")},
    )
    assert cli("serve", config).code == 0
    said = cli(*_replay(tmp_path, log="q.parquet", answers="out.parquet"))
    assert said.out == "identical: 1 message, 200 rounds from round 0; extra epsilon: 0\n"
