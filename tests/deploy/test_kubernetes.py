"""The Kubernetes manifests: Kubernetes's own schemas, and that their parts fit each other and the daemon."""

import copy
import subprocess

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import pytest
import yaml

from oracle.cli.version import version
from oracle.config.daemon import load_config
from oracle.state.keys import create_key_file, read_key_file
from tests.support.dockerfile import read_stages
from tests.support.prometheus import DEPLOY

_FOLDER = DEPLOY / "kubernetes"
_IMAGE = read_stages(DEPLOY / "Dockerfile")[-1]
_VERSIONS = ("1.31", kubernetes_validate.latest_version())


def _documents(name):
    return list(yaml.safe_load_all((_FOLDER / name).read_text()))


_ALL = _documents("perpetua.yaml")
_INIT = _documents("init.yaml")
_BY_KIND = {document["kind"]: document for document in _ALL}
_SET = _BY_KIND["StatefulSet"]["spec"]
_POD = _SET["template"]["spec"]
_CONTAINER = _POD["containers"][0]
_LABELS = _SET["template"]["metadata"]["labels"]
_MONITOR = _documents("monitor/servicemonitor.yaml")[0]


@pytest.mark.parametrize("release", _VERSIONS)
def test_kubernetes_accepts_every_manifest(release):
    """Each is valid by the schema of that release, without a field that is not in it."""
    for document in (*_ALL, *_INIT):
        kubernetes_validate.validate(document, release, strict=True)


def test_a_misspelt_field_is_not_accepted():
    """The check of the schemas is one."""
    wrong = copy.deepcopy(_BY_KIND["StatefulSet"])
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, _VERSIONS[-1], strict=True)


@pytest.mark.parametrize("pod", [_POD, _INIT[-1]["spec"]], ids=["daemon", "init"])
def test_every_container_is_restricted(pod):
    """What the restricted level of Pod Security asks for, and a read-only root; the image and its user are the same."""
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == _IMAGE.of("USER")[0]
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod.get("initContainers", []), *pod["containers"]):
        assert container["image"] == f"perpetua:{version()}"
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("pod", [_POD, _INIT[-1]["spec"]], ids=["daemon", "init"])
def test_a_mount_does_not_open_the_state_to_the_group(pod):
    """With fsGroup, Kubernetes makes files readable by the group at every mount unless told otherwise."""
    assert pod["securityContext"]["fsGroup"] == 10001
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_the_daemon_accepts_its_configuration_which_fits_the_pod(tmp_path):
    """serve.toml loads, state and secrets are on mounted volumes, and a stop has time enough."""
    path = tmp_path / "serve.toml"
    path.write_text(_BY_KIND["ConfigMap"]["data"]["serve.toml"])
    config = load_config(path)
    mounts = {mount["mountPath"]: mount["name"] for mount in _CONTAINER["volumeMounts"]}
    assert mounts[str(config.state.folder.parent)] == _SET["volumeClaimTemplates"][0]["metadata"]["name"]
    assert config.kafka is not None
    assert config.kafka.sasl is not None
    assert config.kafka.sasl.password_file is not None
    for secret in (config.state.key_path, config.kafka.sasl.password_file):
        assert mounts[str(secret.parent)] == "private"
    environment = {entry["name"]: entry.get("value") for entry in _CONTAINER["env"]}
    assert environment["PERPETUA_WEB__TOKEN_FILE"] == "/run/perpetua/web-token"  # noqa: S105 -- a path
    assert _CONTAINER["args"] == ["serve", "/etc/perpetua/serve.toml"]
    assert mounts["/etc/perpetua"] == "config"
    assert _POD["terminationGracePeriodSeconds"] > 2 * config.service.drain_seconds


def test_the_copies_of_the_secrets_are_readable_by_their_owner_only(tmp_path):
    """The init container's own command makes a key that the daemon takes out of a Secret's volume, links and all."""
    secret, private = tmp_path / "secret", tmp_path / "private"
    (secret / "..2026").mkdir(parents=True)
    private.mkdir()
    key = create_key_file(secret / "..2026" / "key")
    (secret / "..2026" / "key").chmod(0o440)
    (secret / "..data").symlink_to("..2026")
    (secret / "key").symlink_to("..data/key")
    (step,) = _POD["initContainers"]
    mounts = {mount["mountPath"]: folder for mount, folder in zip(step["volumeMounts"], (secret, private), strict=True)}
    command = step["command"][-1]
    for path, folder in mounts.items():
        command = command.replace(path, str(folder))
    for _ in range(2):  # also when the pod's containers are started afresh over the same volume
        subprocess.run([*step["command"][:-1], command], check=True)
        assert read_key_file(private / "key") == key
        assert [path.name for path in private.iterdir()] == ["key"]


def test_one_pod_serves_all_partitions():
    """More would each begin with an empty volume of its own."""
    assert _SET["replicas"] == 1
    (claim,) = _SET["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert _SET["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_the_pod_that_makes_the_state_fills_the_claim_of_the_set():
    """Its claim has the name and the terms that the StatefulSet's first pod will look for."""
    claim, pod = _INIT
    (template,) = _SET["volumeClaimTemplates"]
    assert (
        claim["metadata"]["name"] == f"{template['metadata']['name']}-{_BY_KIND['StatefulSet']['metadata']['name']}-0"
    )
    assert claim["spec"] == template["spec"]
    (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "state"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_probes_ask_what_the_container_answers():
    """Life is asked without the token, at the named port; readiness by the image's probe, which has it."""
    (port,) = _CONTAINER["ports"]
    environment = {entry["name"]: entry.get("value") for entry in _CONTAINER["env"]}
    assert str(port["containerPort"]) == environment["PERPETUA_WEB__PORT"]
    for probe in ("startupProbe", "livenessProbe"):
        assert _CONTAINER[probe]["httpGet"] == {"path": "/livez", "port": port["name"]}
    command = _CONTAINER["readinessProbe"]["exec"]["command"]
    assert command[-1] == "readyz"
    assert command[:-1] == yaml.safe_load(_IMAGE.of("HEALTHCHECK")[0].partition(" CMD ")[2])[:-1]


def test_selectors_and_ports_meet_the_pod():
    """Service, budget, policy and monitor choose the pod; the names of ports are there."""
    selectors = [
        _SET["selector"]["matchLabels"],
        _BY_KIND["Service"]["spec"]["selector"],
        _BY_KIND["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        _BY_KIND["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= _LABELS.items()
    service = _BY_KIND["Service"]
    assert _MONITOR["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = _MONITOR["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert service["spec"]["ports"][0]["targetPort"] == _CONTAINER["ports"][0]["name"]
    assert _SET["serviceName"] == service["metadata"]["name"]
    assert service["metadata"]["name"] == "perpetua"  # the job's name, which the rules ask for
    (policy,) = _BY_KIND["NetworkPolicy"]["spec"]["ingress"]
    assert policy["ports"][0]["port"] == _CONTAINER["ports"][0]["name"]
