"""Checks of what is around predictors: states on disk, restarts, forks, shards, persons, ledgers, commands."""
