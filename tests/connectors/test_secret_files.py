"""Who may read a file of secrets: nobody but us, or what root decides."""

import subprocess
import sys
from pathlib import Path

import pytest

from connectors.secret_files import fault_of, open_secret
from connectors.tls import Tls, tls_context
from oracle.config.credentials import secret_of, tls_of
from oracle.config.tls import TlsConfig
from oracle.errors import InputError
from tests.support.certificates import Authority
from tests.support.configs import write_secret

_OPEN_FILES = Path("/proc/self/fd")
_OPEN = [0o644, 0o640, 0o604, 0o660, 0o610]


@pytest.fixture
def secret(tmp_path):
    """A file with a password, mode 0600."""
    return write_secret(tmp_path / "password", "opensesame\n")


@pytest.mark.parametrize("mode", _OPEN)
def test_password_that_others_can_read(secret, mode):
    """It is refused by its setting, its name and its mode, with the command that mends it, and unshown."""
    secret.chmod(mode)
    with pytest.raises(InputError) as caught:
        secret_of("kafka.sasl.password_file", secret)
    field, mend = f"kafka.sasl.password_file = '{secret}'", f"close it with: chmod 600 {secret}"
    assert str(caught.value) == f"{field}: mode {mode:04o} opens it to others; {mend}"
    subprocess.run(str(caught.value).rpartition(": ")[2].split(), check=True)
    assert secret_of("kafka.sasl.password_file", secret) == "opensesame"


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_password_behind_links(tmp_path, secret, mode):
    """Mounted secrets are links; what counts is the file, not the link."""
    secret.chmod(mode)
    (tmp_path / "..data").symlink_to(".")
    link = tmp_path / "link"
    link.symlink_to("..data/password")
    assert secret_of("mqtt.login.password_file", link) == "opensesame"
    secret.chmod(0o444)
    with pytest.raises(InputError, match="mode 0444"):
        secret_of("mqtt.login.password_file", link)


def test_password_out_of_a_pipe(secret):
    """What a shell hands over as <(command) is nobody else's."""
    script = (
        "import sys; from pathlib import Path; from oracle.config.credentials import secret_of; "
        "print(secret_of('p', Path(sys.argv[1])))"
    )
    line = ["bash", "-c", '"$0" -c "$1" <(cat "$2")', sys.executable, script, str(secret)]
    assert subprocess.run(line, stdout=subprocess.PIPE, check=True, text=True).stdout == "opensesame\n"


@pytest.mark.parametrize(
    ("user", "owner", "mode", "told"),
    [
        (10001, 0, 0o440, None),  # a Secret of Kubernetes with fsGroup, a credential of systemd
        (10001, 0, 0o640, None),
        (10001, 0, 0o644, "chmod 640"),
        (10001, 0, 0o660, "chmod 640"),
        (10001, 10001, 0o400, None),
        (10001, 10001, 0o440, "chmod 600"),
        (10001, 1000, 0o640, "chown 10001"),
        (10001, 1000, 0o604, "chown 10001"),
        (0, 1000, 0o600, None),  # root looks on for the user that serves
        (0, 0, 0o440, "chmod 600"),
    ],
)
def test_whose_file_it_may_be(user, owner, mode, told):
    """Ours alone, or root's, who may give it to one group; nobody else's."""
    fault = fault_of(owner, mode, user)
    assert fault is None if told is None else fault is not None and fault.endswith(told)


def test_no_file_is_left_open_by_a_refusal(secret):
    """The descriptor goes with the error."""
    secret.chmod(0o644)
    before = len(list(_OPEN_FILES.iterdir()))
    with pytest.raises(InputError):
        open_secret("p", secret)
    assert len(list(_OPEN_FILES.iterdir())) == before


def test_private_key_that_others_can_read(tmp_path):
    """The key's own file, the certificate's where the key is in it, and the file of its password; no other file."""
    authority = Authority(tmp_path)
    both = authority.issue("client")
    authority.certificate.chmod(0o644)
    both.chmod(0o600)
    for tls in (Tls(authority.certificate, both, both), Tls(authority.certificate, both)):
        tls_context(tls, "kafka.tls")
    both.chmod(0o640)
    with pytest.raises(InputError, match=r"^kafka\.tls\.key_file = .*mode 0640 .*chmod 600"):
        tls_context(Tls(authority.certificate, both, both), "kafka.tls")
    with pytest.raises(InputError, match=r"^kafka\.tls\.certificate_file = .*mode 0640 .*chmod 600"):
        tls_context(Tls(authority.certificate, both), "kafka.tls")
    with pytest.raises(InputError, match=r"^mqtt\.tls\.key_password_file = .*mode 0640"):
        tls_of(TlsConfig(key_password_file=both), "mqtt.tls")
