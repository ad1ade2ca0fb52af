import pytest

from connectors.tls import Tls, tls_context
from oracle.errors import InputError, RefusedError


@pytest.mark.parametrize("name", ["ca_file", "certificate_file", "key_file"])
def test_missing_file_is_named(tmp_path, name):
    """By its setting and its path: the system's own words do not say which of three files it is."""
    there = tmp_path / "there.pem"
    there.write_text("")
    files = {"certificate_file": there, "key_file": there, name: tmp_path / "none.pem"}
    with pytest.raises(InputError) as caught:
        tls_context(Tls(**files), "kafka.tls")
    assert str(caught.value) == f"kafka.tls.{name} = '{tmp_path}/none.pem': cannot be read: No such file or directory"


def test_file_that_is_no_certificate(tmp_path):
    """It is there, and refused for what it holds; nothing of that is told."""
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("opensesame")
    with pytest.raises(RefusedError, match=r"^kafka\.tls: its files cannot be used: ") as caught:
        tls_context(Tls(wrong), "kafka.tls")
    assert "opensesame" not in str(caught.value)
