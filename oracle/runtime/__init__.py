"""The daemon: shards, their lifecycle, commits, snapshots, recovery."""
