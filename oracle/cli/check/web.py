"""What `perpetua check` looks at where there is a `[web]` table."""

from collections.abc import Iterator

from oracle.cli.check.findings import Finding, attempt
from oracle.config.web import WebTable

__all__ = ["web_findings"]


def web_findings(table: WebTable | None, *, held: bool) -> Iterator[Finding]:
    """Check the token file and the address.

    Args:
        table: `[web]`.
        held: Whether a daemon serves the state now; then the port may well be its own.
    """
    if table is None:
        return
    from oracle.web.server import listen
    from oracle.web.token import read_token

    if table.token_file is not None:
        path = table.token_file
        finding, _ = attempt("web: token file", lambda: read_token(path))
        yield finding
    if held and table.port:
        yield Finding("web: the port was not tried, as a daemon serves this state now", None)
        return
    finding, _ = attempt("web: address is free", lambda: listen(table).close())
    yield finding
