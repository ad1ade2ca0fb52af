"""The tests; a package of its own, so that no installed package of that name is taken for it."""
