"""Runs recorded and replayed on neighbouring data: how far one record moves what goes into mechanisms."""
