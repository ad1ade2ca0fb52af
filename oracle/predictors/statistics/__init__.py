"""Questions about a table: private multiplicative weights, and sparse vectors."""
