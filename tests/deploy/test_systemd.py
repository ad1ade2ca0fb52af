"""The systemd unit: by systemd's own tools, and what it relies on in the daemon."""

import configparser
import subprocess
import sys

import pytest

from oracle.config.daemon import ServiceConfig
from oracle.errors import KeyFileError
from oracle.state.keys import create_key_file, read_key_file
from tests.support.prometheus import DEPLOY, program

_UNIT = DEPLOY / "systemd" / "perpetua.service"
_MOST_EXPOSURE = 13
"""In tenths of the points: 0 is none, 100 all. It is 9 by systemd 252; other versions weigh a little otherwise."""


class _Repeated(dict[str, str]):
    """Keeps all values of a setting that a unit repeats, a line each."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self and isinstance(self[key], list):
            value = [*self[key], *value]
        super().__setitem__(key, value)


def _service():
    parser = configparser.RawConfigParser(strict=False, dict_type=_Repeated, empty_lines_in_values=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names as they are, says configparser's manual
    parser.read_string(_UNIT.read_text())
    return parser["Service"]


def _analyze(*arguments):
    return subprocess.run(
        [program("systemd-analyze"), "--no-pager", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def _exposed(unit):
    return _analyze("security", "--offline=true", f"--threshold={_MOST_EXPOSURE}", unit)


def test_the_unit_exposes_little(tmp_path):
    """The figure of systemd itself is at most 1.3 of 10; without two of the protections it is more."""
    result = _exposed(_UNIT)
    assert result.returncode == 0, result.stdout + result.stderr
    weaker = tmp_path / "perpetua.service"
    weaker.write_text(_UNIT.read_text().replace("PrivateUsers=yes", "").replace("CapabilityBoundingSet=", "", 1))
    assert _exposed(weaker).returncode != 0


def test_systemd_understands_every_line(tmp_path):
    """`systemd-analyze verify` finds no fault, and does find one in a misspelt setting."""
    text = _UNIT.read_text().replace("/opt/perpetua/bin/perpetua", sys.executable)
    unit = tmp_path / "perpetua.service"
    unit.write_text(text)
    result = _analyze("verify", "--man=no", unit)
    assert (result.returncode, result.stderr) == (0, "")
    unit.write_text(text.replace("NoNewPrivileges", "NoNewPriviledges"))
    assert "NoNewPriviledges" in _analyze("verify", "--man=no", unit).stderr


def test_user_and_folders_are_described_for_systemd(tmp_path):
    """systemd-sysusers would make the unit's user."""
    (tmp_path / "etc").mkdir()
    options = ["--dry-run", f"--root={tmp_path}", str(DEPLOY / "systemd" / "perpetua.sysusers.conf")]
    result = subprocess.run([program("systemd-sysusers"), *options], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert f"Creating user '{_service()['User']}'" in result.stdout + result.stderr


def test_a_stop_has_time_enough():
    """A stop by systemd waits for longer than the daemon itself does: twice drain_seconds."""
    assert int(_service()["TimeoutStopSec"]) > 2 * ServiceConfig().drain_seconds


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('[state]\nfolder = "nowhere"\nkey_files = "key"\n', 2),
        ('[state]\nfolder = "nowhere"\n[source]\nkind = "stdin"\n[sink]\nkind = "stdout"\n', 3),
    ],
    ids=["a misspelt setting", "a state that is not there"],
)
def test_what_a_restart_cannot_mend_is_not_restarted(tmp_path, text, code):
    """The daemon's exit codes for a refused configuration and an unusable state are those that prevent a restart."""
    config = tmp_path / "serve.toml"
    config.write_text(text)
    command = [sys.executable, "-m", "oracle.cli", "serve", str(config)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert ended.returncode == code
    service = _service()
    assert service["Restart"] == "on-failure"
    assert str(code) in service["RestartPreventExitStatus"].split()


def test_what_may_pass_is_restarted():
    """Nothing but a refusal and a state that needs an operator is left down at once; disks and brokers come back."""
    assert set(_service()["RestartPreventExitStatus"].split()) == {"2", "3"}


def test_the_copy_of_the_credential_is_a_key_that_the_daemon_takes(tmp_path):
    """A credential shows as mode 0440, which the daemon refuses; what ExecStartPre makes of it, it takes."""
    credential = tmp_path / "key"
    key = create_key_file(credential)
    credential.chmod(0o440)
    with pytest.raises(KeyFileError, match="readable by others"):
        read_key_file(credential)
    copy = tmp_path / "perpetua" / "key"
    copy.parent.mkdir()
    command = _service()["ExecStartPre"].replace("%d", str(tmp_path)).replace("/run/perpetua", str(copy.parent))
    subprocess.run(command.split(), check=True)
    assert read_key_file(copy) == key
    assert _service()["RuntimeDirectory"] == "perpetua"
    assert _service()["LoadCredential"].startswith("key:")
