"""Plans of statistics and of sparse vectors: questions about a table, of which few are paid."""
