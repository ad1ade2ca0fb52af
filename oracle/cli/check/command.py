"""`perpetua check`: find what would stop the daemon before a restart does."""

from functools import partial

import typer

from oracle.cli.check.findings import Finding, Findings
from oracle.cli.check.single import check_single
from oracle.cli.options import AsJson, ConfigFile
from oracle.cli.output import print_json
from oracle.config.daemon import load_config

__all__ = ["run"]


def run(config_file: ConfigFile, as_json: AsJson = False) -> None:
    """Check a configuration, its state, source and sink; change nothing. Exits 1 if something would stop `serve`."""
    findings = Findings((lambda _finding: None) if as_json else _show)
    config = findings.get("configuration", lambda: load_config(config_file))
    if config is not None and config.source.kind == "kafka":
        from oracle.cli.check.kafka import check_kafka

        check_kafka(config, findings)
    elif config is not None:
        check_single(config, findings)
    if config is not None and config.truth is not None:
        from oracle.hosting.truths import open_truths

        findings.holds("plan pays for true labels", partial(open_truths, config))
    if as_json:
        print_json([{"what": finding.what, "problem": finding.problem} for finding in findings])
    if any(finding.problem for finding in findings):
        raise typer.Exit(1)


def _show(finding: Finding) -> None:
    problem = f": {finding.problem}" if finding.problem else ""
    typer.echo(f"{'WRONG' if finding.problem else 'ok':<7}{finding.what}{problem}")
