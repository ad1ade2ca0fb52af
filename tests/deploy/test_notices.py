"""What the image has of others: the bill of materials and the notices are those of its lock file."""

import json
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.prometheus import DEPLOY

_ROOT = DEPLOY.parent
_MADE = ("sbom.cdx.json", "THIRD_PARTY_NOTICES.md")
_LOCK = (DEPLOY / "requirements-run.lock").read_text()
_PINS = dict(re.findall(r"^([\w.-]+)==(\S+)", _LOCK, re.MULTILINE))
_ELSEWHERE = set(re.findall(r"^([\w.-]+)==\S+ ; sys_platform == 'win32'", _LOCK, re.MULTILINE))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder in which the script has made both files anew."""
    root = tmp_path_factory.mktemp("notices")
    (root / "deploy").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "deploy/notices.sh", "deploy/requirements-run.lock"):
        shutil.copy(_ROOT / name, root / name)
    subprocess.run([root / "deploy" / "notices.sh", sys.prefix], check=True, stderr=subprocess.PIPE)
    return root / "deploy"


@pytest.mark.slow
@pytest.mark.parametrize("name", _MADE)
def test_the_committed_files_are_those_of_the_lock_file(made, name):
    """`make notices` would change nothing."""
    assert (made / name).read_text() == (DEPLOY / name).read_text()


def test_every_package_is_in_the_bill_with_its_hashes():
    """Names, versions and hashes are the lock file's, in CycloneDX."""
    bill = json.loads((DEPLOY / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "perpetua"
    assert {part["name"]: part["version"] for part in bill["components"]} == _PINS
    hashes = {
        hashed["content"]
        for part in bill["components"]
        for reference in part["externalReferences"]
        for hashed in reference.get("hashes", [])
    }
    assert hashes == set(re.findall(r"--hash=sha256:([0-9a-f]{64})", _LOCK))


def test_nothing_in_the_bill_follows_time_or_place():
    """The same lock file gives the same bytes on every machine."""
    text = (DEPLOY / "sbom.cdx.json").read_text()
    assert "serialNumber" not in text
    assert "timestamp" not in text
    assert str(_ROOT) not in text


@pytest.mark.parametrize("name", sorted(_PINS.keys() - _ELSEWHERE))
def test_every_package_has_its_licence_in_the_notices_and_its_text_in_the_image(name):
    """A row with the version and a known licence; the text comes with the package itself, as the notices say."""
    notices = (DEPLOY / "THIRD_PARTY_NOTICES.md").read_text()
    same = name.replace("-", "[-_]")
    (row,) = re.findall(rf"^\| {same} .*$", notices, re.MULTILINE | re.IGNORECASE)
    _, _, version, licence, *_ = (cell.strip() for cell in row.split("|"))
    assert version == _PINS[name]
    assert licence not in {"", "UNKNOWN"}
    texts = [file for file in metadata.files(name) or [] if re.search("licen[cs]e|copying", file.name, re.IGNORECASE)]
    assert any(".dist-info" in str(file) for file in texts)


def test_the_library_under_the_lgpl_can_be_replaced(tmp_path):
    """Another package of the name, with the one function that is called, serves as well; nothing else names it."""
    (tmp_path / "crc32c.py").write_text("def crc32c(data, value=0): return 0x1234\n")
    script = "from connectors.kafka import record_batches; print(record_batches.crc32c(b''))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=_ROOT, env={"PYTHONPATH": str(tmp_path)}, stdout=subprocess.PIPE, check=True
    )
    assert done.stdout.split() == [b"4660"]
    users = [path for folder in ("oracle", "connectors") for path in Path(_ROOT / folder).rglob("*.py")]
    uses = {
        line for path in users for line in path.read_text().splitlines() if re.search(r"(import|from) crc32c", line)
    }
    assert uses == {"from crc32c import crc32c"}
