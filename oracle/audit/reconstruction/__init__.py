"""Reconstruction: from published tables back to secret bits; docs/explanation/reconstruction.md."""
