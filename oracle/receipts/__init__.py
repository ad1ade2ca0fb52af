"""Receipts: signed public statements of what a run has promised, and their check."""
