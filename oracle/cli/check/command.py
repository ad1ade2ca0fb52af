"""`perpetua check`: find what would stop the daemon before a restart does."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import typer

from oracle.cli.check.findings import Finding, Findings
from oracle.cli.check.single import check_single
from oracle.cli.options import AsJson, ConfigFile, ModelName
from oracle.cli.output import print_json
from oracle.config.daemon import Config, load_config, load_configs

__all__ = ["run"]


def run(config_file: ConfigFile, model: ModelName = None, as_json: AsJson = False) -> None:
    """Check a configuration, its state, source and sink; change nothing. Exits 1 if something would stop `serve`.

    Of a configuration with many models all are checked, unless one is named.
    """
    findings = Findings((lambda _finding: None) if as_json else _show)
    configs = findings.get("configuration", lambda: _configs(config_file, model)) or {}
    for name, config in configs.items():
        findings.about = "" if name is None else f"model {name}: "
        _check(config, findings)
    if len(configs) > 1:
        from oracle.hosting.models import refuse_copies_among

        findings.about = ""
        findings.holds("no model has a copy of another's state", partial(refuse_copies_among, configs))
    if as_json:
        print_json([{"what": finding.what, "problem": finding.problem} for finding in findings])
    if any(finding.problem for finding in findings):
        raise typer.Exit(1)


def _configs(config_file: Path, model: str | None) -> Mapping[str | None, Config]:
    return load_configs(config_file) if model is None else {model: load_config(config_file, model)}


def _check(config: Config, findings: Findings) -> None:
    if config.source.kind == "kafka":
        from oracle.cli.check.kafka import check_kafka

        check_kafka(config, findings)
    else:
        check_single(config, findings)
    if config.truth is not None:
        from oracle.hosting.truths import open_truths

        findings.holds("plan pays for true labels", partial(open_truths, config))


def _show(finding: Finding) -> None:
    problem = f": {finding.problem}" if finding.problem else ""
    typer.echo(f"{'WRONG' if finding.problem else 'ok':<7}{finding.what}{problem}")
