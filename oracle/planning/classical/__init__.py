"""Plans of classical learners."""
