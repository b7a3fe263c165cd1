"""Notebooks of the book: how a page begins, the cells that pages share, and papermill without an output path."""
