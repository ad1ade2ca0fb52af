"""The kustomize base and the example of an overlay, by kustomize itself."""

import pytest

from oracle.config.daemon import load_config
from tests.support.charts import kustomize, validate
from tests.support.prometheus import DEPLOY

pytestmark = [pytest.mark.slow, pytest.mark.charts]

_EXAMPLE = DEPLOY / "kustomize" / "example"


def test_kubernetes_accepts_what_is_built():
    """The base and the overlay, by Kubernetes' own schemas."""
    for folder in (DEPLOY / "kubernetes", _EXAMPLE):
        validate(kustomize(folder))


def test_the_overlay_changes_what_it_says_and_nothing_else(tmp_path):
    """Namespace, image, configuration, claim and limits are its own, and a collector may be spoken to."""
    base, found = (
        {document["kind"]: document for document in kustomize(folder)} for folder in (DEPLOY / "kubernetes", _EXAMPLE)
    )
    assert found.keys() - base.keys() == {"ServiceMonitor"}
    assert {one["metadata"].get("namespace", one["metadata"]["name"]) for one in found.values()} == {"flights"}
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    images = {container["image"] for container in (*pod["initContainers"], *pod["containers"])}
    assert images == {"registry.example.org/perpetua:0.1.0"}
    (claim,) = found["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    (config,) = [volume["configMap"]["name"] for volume in pod["volumes"] if volume["name"] == "config"]
    assert config == found["ConfigMap"]["metadata"]["name"] == "perpetua"
    path = tmp_path / "serve.toml"
    path.write_text(found["ConfigMap"]["data"]["serve.toml"])
    assert load_config(path).otlp is not None
    ports = [port["port"] for rule in found["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]]
    assert 4318 in ports  # the collector of [otlp]
    before = base["StatefulSet"]["spec"]["template"]["spec"]
    assert {name for name in pod if pod[name] != before[name]} == {"containers", "initContainers"}
