"""The second implementations: plain, slow, and from the written proofs alone."""
