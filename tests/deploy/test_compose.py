"""The compose file: its schema, what it leaves open, and that its parts fit each other."""

import json
import re
import subprocess
import sys

import pytest
import yaml

from oracle.cli.version import version
from oracle.config.daemon import load_config
from tests.support.dockerfile import read_stages
from tests.support.prometheus import DEPLOY

_COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
_SERVICES = _COMPOSE["services"]
_DAEMON = _SERVICES["perpetua"]
_OURS = [name for name, service in _SERVICES.items() if service["image"].startswith("perpetua:")]
_IMAGE = read_stages(DEPLOY / "Dockerfile")[-1]
_UNITS = {"s": 1, "m": 60}


def _seconds(text):
    return int(text[:-1]) * _UNITS[text[-1]]


def _validate(path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_schema_of_compose_files_accepts_it_and_not_a_misspelt_one(tmp_path):
    """The file is valid; the same with a misspelt setting is not, so that the check is one."""
    result = _validate(DEPLOY / "compose.yaml")
    assert result.returncode == 0, result.stdout
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((DEPLOY / "compose.yaml").read_text().replace("read_only: true", "readonly: true", 1))
    assert _validate(wrong).returncode == 1


@pytest.mark.parametrize("name", _SERVICES)
def test_every_service_gives_up_rights_and_listens_here_only(name):
    """No capability, no new privileges, an image of a known version, ports on this machine's loopback."""
    service = _SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"])
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", _OURS)
def test_the_daemon_and_its_tools_write_to_the_state_only(name):
    """The root is read-only, the user the image's, and the version the project's."""
    service = _SERVICES[name]
    assert service["read_only"] is True
    assert service["user"] == _IMAGE.of("USER")[0]
    assert service["image"] == f"perpetua:{version()}"
    writable = [mount["target"] for mount in service["volumes"] if not mount.get("read_only")]
    assert set(writable) <= {"/var/lib/perpetua", "/secrets"}
    assert ("/secrets" in writable) == (name == "init")


@pytest.mark.parametrize("name", ["perpetua", "init"])
def test_private_points_in_memory_reach_no_disk(name):
    """Neither swap nor core dumps."""
    service = _SERVICES[name]
    assert service["memswap_limit"] == service["mem_limit"]
    assert service["ulimits"] == {"core": 0}


def test_every_file_and_secret_that_is_mounted_is_there():
    """Nothing is mounted that is not in this folder, but what the operator puts there: data and secrets."""
    for service in _SERVICES.values():
        for mount in service.get("volumes", []):
            if mount["type"] == "volume":
                assert mount["source"] in _COMPOSE["volumes"]
            elif mount["source"] not in {"./data", "./secrets"}:
                assert (DEPLOY / mount["source"]).exists(), mount
    used = {secret for service in _SERVICES.values() for secret in service.get("secrets", [])}
    assert used == set(_COMPOSE["secrets"])
    for name, secret in _COMPOSE["secrets"].items():
        assert secret == {"file": f"./secrets/{name}"}
    for name in ("secrets/perpetua-key", "data/rows.csv"):  # and none of that can be committed by mistake
        command = ["git", "-c", f"safe.directory={DEPLOY.parent}", "check-ignore", "-q", name]
        assert subprocess.run(command, cwd=DEPLOY, check=False).returncode == 0, name


def test_the_daemon_accepts_its_configuration_which_fits_the_services():
    """serve.toml loads, its key is the mounted secret, its broker is the service, and a stop has time enough."""
    config = load_config(DEPLOY / "compose" / "serve.toml")
    assert str(config.state.key_path) == "/run/secrets/perpetua-key"
    assert {"perpetua-key", "perpetua-web"} <= set(_DAEMON["secrets"])
    assert _DAEMON["environment"]["PERPETUA_WEB__TOKEN_FILE"] == "/run/secrets/perpetua-web"  # noqa: S105 -- a path
    assert config.kafka is not None
    (server,) = config.kafka.servers
    assert f"PLAINTEXT://{server}," in _SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert _seconds(_DAEMON["stop_grace_period"]) > 2 * config.service.drain_seconds
    made = _SERVICES["init"]["command"]
    assert made[made.index("--state") + 1] == str(config.state.folder)
    assert made[made.index("--key") + 1] == "/secrets/perpetua-key"


def test_the_health_check_is_the_image_s():
    """The compose file and the Dockerfile ask the same."""
    (check,) = _IMAGE.of("HEALTHCHECK")
    options, _, command = check.partition(" CMD ")
    assert _DAEMON["healthcheck"]["test"] == ["CMD", *json.loads(command)]
    assert {f"--{name}={_DAEMON['healthcheck'][name.replace('-', '_')]}" for name in ("interval", "timeout")} <= set(
        options.split()
    )


def test_prometheus_reaches_the_daemon_with_its_token():
    """The target is the service and its port, on a network of both; the token's file is a mounted secret."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    port = _DAEMON["environment"]["PERPETUA_WEB__PORT"]
    assert job["static_configs"] == [{"targets": [f"perpetua:{port}"]}]
    (secret,) = _SERVICES["prometheus"]["secrets"]
    assert job["authorization"] == {"credentials_file": f"/run/secrets/{secret}"}
    assert set(_SERVICES["prometheus"]["networks"]) <= set(_DAEMON["networks"])
    for file in config["rule_files"]:
        assert (DEPLOY / "prometheus" / file).is_file()


def test_kafka_is_the_version_that_the_tests_run_on():
    """The broker of the compose file is the one of deploy/kafka/pom.xml."""
    (tested,) = re.findall(r"<kafka.version>([\d.]+)</kafka.version>", (DEPLOY / "kafka" / "pom.xml").read_text())
    assert _SERVICES["kafka"]["image"] == f"apache/kafka:{tested}"


def test_mosquitto_lets_nobody_in_without_a_password():
    """It runs only if asked for, and its configuration names the mounted password file."""
    service = _SERVICES["mosquitto"]
    assert service["profiles"] == ["mqtt"]
    lines = (DEPLOY / "compose" / "mosquitto.conf").read_text().splitlines()
    settings = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert settings["allow_anonymous"] == "false"
    (secret,) = service["secrets"]
    assert settings["password_file"] == f"/run/secrets/{secret}"
    assert settings["persistence_location"].rstrip("/") in {mount["target"] for mount in service["volumes"]}
