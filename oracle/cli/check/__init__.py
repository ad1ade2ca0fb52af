"""`perpetua check`: what would stop the daemon, found before a restart does."""
