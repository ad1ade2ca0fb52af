"""Peers run in environments of their own, with packages that the tests' has not."""

collect_ignore = ["peers"]
