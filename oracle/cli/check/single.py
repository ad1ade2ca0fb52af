"""What `perpetua check` looks at where one shard is served, from files, standard input, MQTT or HTTP."""

from functools import partial

from oracle.cli.check.findings import Findings
from oracle.cli.states import newest_snapshot, state_plan
from oracle.config.daemon import Config
from oracle.planning.plan import Plan
from oracle.runtime.shard import Shard
from oracle.state.folder import check_mode, is_held
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded

__all__ = ["check_single"]


def check_single(config: Config, findings: Findings) -> None:
    """Check a state that one daemon serves; take nobody's session over, change nothing."""
    folder = config.state.folder

    def check_folder() -> None:
        check_mode(folder)
        refuse_sharded(folder)

    def open_shard() -> Shard | None:
        if plan is None or not has_key:
            return None
        return findings.get("snapshot decrypts with this key and plan", partial(_shard, config, plan))

    findings.web(config.web, held=is_held(folder))
    findings.otlp(config)
    if not findings.holds("state folder exists and is private", check_folder):
        return
    findings.space([folder])
    plan = findings.plan(lambda: state_plan(folder))
    has_key = findings.holds("key file", lambda: read_key_file(config.state.key_path))
    if config.source.kind == "mqtt":
        from oracle.cli.check.mqtt import check_ends
    elif config.source.kind == "http":
        from oracle.cli.check.http import check_ends
    else:
        from oracle.cli.check.files import check_ends
    check_ends(config, findings, plan, open_shard)
    if is_held(folder):
        findings.note("a daemon is serving this state now; a second one would be refused")


def _shard(config: Config, plan: Plan) -> Shard:
    return Shard(plan, newest_snapshot(config.state.folder, config.state.key_path, plan)[0])
