"""The configuration of `perpetua serve`: TOML, the environment, and secrets in files."""
