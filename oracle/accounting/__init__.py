"""Privacy accounting: events that state their mathematics, and the accountant that reads them."""
