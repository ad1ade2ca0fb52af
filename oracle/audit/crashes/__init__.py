"""Games through daemons that are killed."""
