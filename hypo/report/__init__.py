"""Runs and the paper as tables: for the pages, the terminal and the README."""
