"""OnlineBisection: a hidden vector's dot products, learned from one noisy bit a query (Choromanski et al., 2015)."""
