"""Connectors within one machine: memory, files, standard input and output. Each is imported by its own module."""
