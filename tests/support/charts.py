"""Helm and kustomize for tests, as `make charts` builds them, and Kubernetes' own schemas."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import yaml

__all__ = ["CUSTOM", "RELEASES", "helm", "kustomize", "validate"]

RELEASES: Final = ("1.31", str(kubernetes_validate.latest_version()))
"""Releases of Kubernetes whose schemas everything is held against."""

CUSTOM: Final = frozenset({"ScaledObject", "ServiceMonitor"})
"""Kinds that Kubernetes does not know."""


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm."""
    return _run("helm", *arguments)


def kustomize(folder: Path) -> list[dict[str, Any]]:
    """Return what kustomize builds of a folder."""
    done = _run("kustomize", "build", folder)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def validate(documents: list[dict[str, Any]]) -> None:
    """Hold manifests against the schemas of Kubernetes, strictly: a field that is not in them fails."""
    for document in documents:
        for release in RELEASES:
            if document["kind"] not in CUSTOM:
                kubernetes_validate.validate(document, release, strict=True)


def _run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name)
    assert path, f"{name} is missing: make charts"
    return subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False)
