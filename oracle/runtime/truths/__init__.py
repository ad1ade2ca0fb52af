"""`perpetua truth`: answers joined with labels that come later, and counted with noise (PRIVACY.md, section 17)."""
