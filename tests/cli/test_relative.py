"""Relative paths in a configuration: what is not there is named by where it was looked for."""

import pytest

from tests.support.checked import make_ready
from tests.support.folders import write_config


@pytest.mark.parametrize("command", ["serve", "check"])
@pytest.mark.parametrize(
    ("table", "setting", "missing"),
    [
        ("state", "folder", "none"),
        ("state", "key_file", "none"),
        ("source", "path", "none.jsonl"),
        ("sink", "path", "none/out.jsonl"),
        ("sink", "ledger", "none/ledger.jsonl"),
        ("sink", "dead_letter", "none/dead.jsonl"),
        ("web", "token_file", "none"),
    ],
)
def test_missing_paths_are_named_whole(  # noqa: PLR0913, PLR0917 -- fixtures and cases
    cli, tmp_path, monkeypatch, command, table, setting, missing
):
    """They are relative to the working folder, not to the configuration's; the absolute path is told."""
    here = tmp_path / "here"
    here.mkdir()
    make_ready(here)
    (tmp_path / "elsewhere").mkdir()
    tables: dict[str, dict[str, object]] = {
        "state": {"folder": "state"},
        "source": {"path": "q.jsonl"},
        "sink": {"path": "out.jsonl", "ledger": None},
        "web": {"port": 0},
    }
    tables[table][setting] = missing
    monkeypatch.chdir(here)
    result = cli(command, write_config(tmp_path / "elsewhere", name="c.toml", **tables))
    assert result.code != 0
    assert str((here / missing).parent if "/" in missing else here / missing) in result.out + result.err
    assert not (here / "none").exists()
