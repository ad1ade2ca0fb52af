"""Questions that are handed in and answers that are fetched, without a bus: two journals, and a desk between."""
