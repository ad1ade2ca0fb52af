"""`perpetua plan`: every number of a run, before any data is read."""
