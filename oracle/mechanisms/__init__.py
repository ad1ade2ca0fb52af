"""The differentially private mechanisms: pure, vectorised, without I/O and without a clock."""
