"""The Helm chart, by Helm itself: what it renders, what it refuses, and that it is the manifests of `kubernetes/`."""

import tomllib

import pytest
import yaml

from oracle.cli.version import version
from tests.support.charts import helm, kustomize, validate
from tests.support.prometheus import DEPLOY

pytestmark = [pytest.mark.slow, pytest.mark.charts]

_CHART = DEPLOY / "helm" / "perpetua"
_RELEASE = ("perpetua", _CHART, "--namespace", "perpetua", "--kube-version", "1.31.0")
_SHARED = ("persistence.shared=true", "persistence.existingClaim=states")
_KEDA = (
    *_SHARED,
    "keda.enabled=true",
    "keda.partitions=12",
    "keda.bootstrapServers=kafka:9092",
    "keda.topic=vfr.queries",
    "keda.consumerGroup=perpetua-vfr",
)
_ALL = (
    *_KEDA,
    "serviceMonitor.enabled=true",
    "persistence.storageClass=fast",
    "imagePullSecrets[0].name=registry",
    "nodeSelector.disk=ssd",
    "tolerations[0].key=oracle",
    "tolerations[0].operator=Exists",
    "priorityClassName=high",
    "podAnnotations.team=flights",
    "env[0].name=PERPETUA_OTLP__ENDPOINT",
    "env[0].value=http://collector:4318",
    "keda.authentication=kafka",
)


def _template(*values, release=_RELEASE):
    return helm("template", *release, *(part for value in values for part in ("--set", value)))


def _rendered(*values, release=_RELEASE):
    """Return the manifests by kind, of which each is there once."""
    done = _template(*values, release=release)
    assert done.returncode == 0, done.stderr
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    by_kind = {document["kind"]: document for document in documents}
    assert len(by_kind) == len(documents)
    return by_kind


def _without_helm(found):
    """Return a manifest without what Helm, or an upgrade by it, needs."""
    left_out = {"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "checksum/config"}
    left_out |= {"imagePullPolicy", "helm.sh/resource-policy"}
    if isinstance(found, list):
        return [_without_helm(one) for one in found]
    if not isinstance(found, dict):
        return found
    kept = {name: _without_helm(value) for name, value in found.items() if name not in left_out}
    return {name: value for name, value in kept.items() if not (name == "annotations" and not value)}


def test_helm_finds_no_fault():
    """Lint, strictly, as it is and with everything on."""
    for values in ((), _ALL):
        done = helm("lint", "--strict", _CHART, "--kube-version", "1.31.0", *(p for v in values for p in ("--set", v)))
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_the_manifests_of_the_folder_kubernetes():
    """Field for field, up to what Helm adds: the two cannot drift apart."""
    base = {document["kind"]: document for document in kustomize(DEPLOY / "kubernetes")}
    del base["Namespace"]  # Helm makes none
    (base["ServiceMonitor"],) = yaml.safe_load_all((DEPLOY / "kubernetes/monitor/servicemonitor.yaml").read_text())
    found = _without_helm(_rendered("serviceMonitor.enabled=true"))
    selectors = found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    assert found.keys() == base.keys()
    assert selectors.items() >= base["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items()
    for kind in found:
        for manifests in (found, base):
            _spread(manifests[kind])
        assert found[kind] == base[kind], kind


def _spread(manifest):
    """Take away what is the same in other words: labels that select, and a ConfigMap's last newline."""
    manifest["metadata"].pop("labels", None)
    spec = manifest.get("spec", {})
    for name in ("podSelector", "selector"):
        spec.pop(name, None)
    if "data" in manifest:
        manifest["data"] = {name: tomllib.loads(text) for name, text in manifest["data"].items()}


def test_the_pod_that_makes_the_state_is_that_of_the_folder_too():
    """With a claim that stays when the pod goes, under the name that the StatefulSet looks for; and no daemon."""
    found = _rendered("init.enabled=true")
    assert not found.keys() & {"StatefulSet", "ScaledObject"}
    assert found["PersistentVolumeClaim"]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for document in yaml.safe_load_all((DEPLOY / "kubernetes" / "init.yaml").read_text()):
        mine = _without_helm(found[document["kind"]])
        mine["metadata"].pop("labels", None)
        assert mine == document
    (template,) = _rendered()["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert found["PersistentVolumeClaim"]["metadata"]["name"] == f"{template['metadata']['name']}-perpetua-0"


@pytest.mark.parametrize("values", [(), _ALL, _SHARED, ("init.enabled=true",)], ids=["plain", "all", "shared", "init"])
def test_kubernetes_accepts_what_is_rendered(values):
    """By its own schemas, of an old and a new release, without a field that is not in them."""
    validate(list(_rendered(*values).values()))


def test_selectors_meet_the_pod_under_any_name():
    """Two releases in a namespace do not take each other's pods; Prometheus's job keeps the name that rules ask for."""
    release = ("flights", _CHART, "--namespace", "perpetua", "--kube-version", "1.31.0")
    found = _rendered("serviceMonitor.enabled=true", release=release)
    labels = found["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/instance"] == "flights"
    for selector in (
        found["StatefulSet"]["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector == labels
    service = found["Service"]["metadata"]
    assert found["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items() <= service["labels"].items()
    assert service["labels"][found["ServiceMonitor"]["spec"]["jobLabel"]] == "perpetua"
    assert found["StatefulSet"]["spec"]["serviceName"] == service["name"] == "flights"


def test_the_image_is_this_version():
    """The chart's, unless a tag is given."""
    containers = _rendered()["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert [container["image"] for container in containers] == [f"perpetua:{version()}"]


def test_a_changed_configuration_starts_the_pods_anew():
    """A pod reads it at its start only."""
    one, other = (
        _rendered(*values)["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
        for values in ((), ("config=x",))
    )
    assert one != other


def test_keda_scales_by_what_waits_within_the_partitions():
    """Never more pods than partitions; the number of pods is left to it; the state is one that all share."""
    found = _rendered(*_ALL)
    assert "replicas" not in found["StatefulSet"]["spec"]
    assert "volumeClaimTemplates" not in found["StatefulSet"]["spec"]
    spec = found["ScaledObject"]["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, 12)
    assert spec["scaleTargetRef"]["kind"] == "StatefulSet"
    assert spec["scaleTargetRef"]["name"] == found["StatefulSet"]["metadata"]["name"]
    (trigger,) = spec["triggers"]
    assert trigger == {
        "type": "kafka",
        "metadata": {
            "bootstrapServers": "kafka:9092",
            "consumerGroup": "perpetua-vfr",
            "topic": "vfr.queries",
            "lagThreshold": "10000",
            "allowIdleConsumers": "false",
            "offsetResetPolicy": "earliest",
        },
        "authenticationRef": {"name": "kafka"},
    }
    assert "ScaledObject" not in _rendered()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["replicas=2"], "replicas above 1, and keda, need persistence.shared"),
        (["keda.enabled=true"], "replicas above 1, and keda, need persistence.shared"),
        (["persistence.shared=true"], "persistence.shared needs persistence.existingClaim"),
        ([*_SHARED, "keda.enabled=true"], "keda.partitions must be set"),
        ([*_KEDA, "keda.minReplicas=13"], "keda.minReplicas must not be above keda.partitions"),
        ([*_KEDA, "keda.topic="], "keda.topic must be set"),
        (["init.enabled=true", "persistence.existingClaim=states"], "init makes a claim"),
        (["replcas=2"], "additional properties 'replcas' not allowed"),
        (["replicas=two"], "/replicas"),
        (["image.pullPolicy=Sometimes"], "/image/pullPolicy"),
        (["persistence.size=large"], "/persistence/size"),
        (["networkPolicy.metricsFrom=null", "networkPolicy.metricsfrom=x"], "additional properties 'metricsfrom'"),
    ],
)
def test_what_would_go_wrong_later_is_refused(values, said):
    """Each with the value's name: a pod without a state, a misspelt value, one outside its bound."""
    done = _template(*values)
    assert done.returncode != 0
    assert said in done.stderr
