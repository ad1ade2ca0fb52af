import subprocess

import pytest

from oracle.cli.version import version
from tests.support.folders import command, environment, long_plan, make_state, perpetua, write_config, write_log
from tests.support.shards import bodies, deliveries_of, new_shard, process_in_batches
from tests.support.waiting import TIMEOUT

_COMMANDS = ("plan", "init", "serve", "status", "check", "topics", "verify", "fork", "replay", "demo")


@pytest.mark.parametrize("name", _COMMANDS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_every_command(cli, name, flag):
    """It prints usage and the command's own sentence, and ends well."""
    result = cli(name, flag)
    assert (result.code, result.err) == (0, "")
    assert "Usage:" in result.out
    assert name in result.out


def test_help_names_every_command(cli):
    """Without arguments, and with --help, all commands are listed."""
    assert cli("--help").code == 0
    for arguments in ((), ("--help",)):
        text = cli(*arguments).out
        assert all(name in text for name in _COMMANDS)


def test_version(cli):
    """It is the installed one."""
    assert cli("--version") == (0, f"perpetua {version()}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("plan",),
        ("plan", "m.toml", "--nope"),
        ("init", "m.toml"),
        ("serve",),
        ("serve", "c.toml", "d.toml"),
        ("replay", "q.jsonl", "--verify"),
        ("status",),
        ("replay", "q.jsonl", "--from", "g", "--answers", "a.jsonl", "--verify", "--rows-per-message", "many"),
    ],
)
def test_usage_errors_are_one_line(refused, arguments):
    """A wrong command line ends with code 2 and one line that says where to find help."""
    assert "--help" in refused(2, *arguments)


def test_an_unknown_choice_is_named_with_those_there_are(refused):
    """Nothing of what reads the command line shows."""
    said = refused(2, "schema", "m.toml", "--of", "nothing")
    assert "Invalid value for '--of': 'nothing' is not one of 'query', 'answer'." in said


@pytest.mark.parametrize("name", ["plan", "serve", "check"])
def test_missing_file(cli, tmp_path, name):
    """A file that is not there is named, with the system's reason."""
    result = cli(name, tmp_path / "none.toml")
    assert result.code == (1 if name == "check" else 4)
    assert "none.toml: cannot be read: No such file or directory" in result.out + result.err


def test_bug_shows_no_traceback(cli, monkeypatch, tmp_path):
    """An error that nobody expected is one line without its text, for the text may hold private data."""

    def burst(_path):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("oracle.cli.serve.command.load_configs", burst)
    result = cli("serve", tmp_path / "c.toml")
    assert (result.code, result.out) == (70, "")
    assert result.err.startswith("perpetua: internal error: ZeroDivisionError")
    assert "secret" not in result.err
    assert result.err.count("\n") == 1


def _piped(arguments, reads):
    """Run a command whose reader reads some bytes of its output and goes away; return code and errors."""
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if reads:
            assert process.stdout.read(reads)
        process.stdout.close()
        return process.wait(TIMEOUT), process.stderr.read().decode()


@pytest.mark.parametrize(
    ("arguments", "reads"), [(("--help",), 0), (("--help",), 10), (("plan", "--json"), 10), (("status",), 0)]
)
def test_reader_that_goes_away(tmp_path, model, arguments, reads):
    """As with `| head`: no traceback and no complaint, whether it read anything or not."""
    if arguments[0] == "plan":
        arguments = (*arguments, model())
    elif arguments[0] == "status":
        make_state(tmp_path / "state", long_plan())
        arguments = (*arguments, tmp_path / "state")
    code, errors = _piped(arguments, reads)
    assert code in {0, 1}
    assert [line for line in errors.splitlines() if not line.startswith("planning")] == []  # progress, where it is slow


def test_serve_into_a_pipe_that_closes(tmp_path):
    """`serve | head -1` ends with one clear line; the answers it could not write are not lost for the next run."""
    make_state(tmp_path / "state", long_plan())
    log = write_log(tmp_path, 4_000)
    config = write_config(
        tmp_path,
        name="pipe.toml",
        sink={"kind": "stdout", "path": None, "ledger": str(tmp_path / "ledger-pipe.jsonl")},
        service={"batch_rows": 50},
    )
    code, errors = _piped(("serve", config), 10)
    assert code == 4
    lines = [line for line in errors.splitlines() if not line.startswith("20")]
    assert lines == ["perpetua: standard output: cannot be written: Broken pipe"]
    result = perpetua("serve", config)
    assert result.returncode == 0
    written = result.stdout.splitlines()
    contents = [None if line == b"null" else line for line in log.read_bytes().splitlines()]
    every = process_in_batches(new_shard(long_plan()), deliveries_of(contents)).replies
    assert 1_000 < len(written) <= len(every)
    assert written == every[-len(written) :]


def test_standard_input_to_standard_output(tmp_path):
    """`cat q.jsonl | perpetua serve c.toml > out` writes what the file connectors write, and nothing else."""
    make_state(tmp_path / "state", long_plan())
    log = write_log(tmp_path, 500)
    twin = tmp_path / "twin"
    subprocess.run(["cp", "-rp", tmp_path / "state", twin], check=True)  # noqa: S607 -- the system's own
    files = perpetua("serve", write_config(tmp_path, name="files.toml", state={"folder": str(twin)}))
    assert files.returncode == 0
    config = write_config(
        tmp_path,
        source={"kind": "stdin", "path": None},
        sink={"kind": "stdout", "path": None, "ledger": str(tmp_path / "ledger-pipe.jsonl")},
    )
    data = log.read_bytes()
    piped = perpetua("serve", config, data=data)
    assert piped.returncode == 0
    assert piped.stdout == (tmp_path / "out.jsonl").read_bytes()
    assert (tmp_path / "ledger-pipe.jsonl").read_bytes() == (tmp_path / "ledger.jsonl").read_bytes()
    again = perpetua("serve", config, data=data + b'{"id":"more","x":[0.5,0.5]}\n')
    assert again.returncode == 0
    assert again.stdout.startswith(b'{"id":"more","label":')
    assert again.stdout.count(b"\n") == 1
    shorter = perpetua("serve", config, data=data[:1000])
    assert shorter.returncode == 4
    assert b"perpetua: standard input: position" in shorter.stderr


@pytest.mark.parametrize(("closed", "said"), [("<&-", b"input: is closed"), (">&-", b"output: is closed")])
def test_a_stream_that_is_closed_is_named(tmp_path, closed, said):
    """The process was started without it: nothing is answered, and nothing else is taken for the stream."""
    make_state(tmp_path / "state", long_plan())
    config = write_config(tmp_path, source={"kind": "stdin", "path": None}, sink={"kind": "stdout", "path": None})
    done = _closing(closed, "serve", config)
    assert (done.returncode, said in done.stderr) == (4, True), done.stderr


def test_nothing_is_written_to_a_file_in_place_of_standard_error(tmp_path):
    """The log is lost, as it was asked to be; no file that the daemon opens gets its number."""
    make_state(tmp_path / "state", long_plan())
    (tmp_path / "q.jsonl").write_bytes(b"".join(line + b"\n" for line in bodies(20)))
    done = _closing("2>&-", "serve", write_config(tmp_path))
    assert (done.returncode, done.stdout) == (0, b"")
    expected = process_in_batches(new_shard(long_plan()), deliveries_of(bodies(20))).replies
    assert (tmp_path / "out.jsonl").read_bytes().splitlines() == expected


def _closing(closed, *arguments):
    line = ["sh", "-c", f'exec "$@" {closed}', "sh", *command(*arguments)]
    return subprocess.run(line, input=b"", capture_output=True, check=False, timeout=TIMEOUT, env=environment())
