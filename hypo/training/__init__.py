"""One engine for every method."""
