"""Checks of what the privacy proofs assume and no short game would show."""
