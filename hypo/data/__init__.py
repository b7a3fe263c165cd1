"""Benchmarks, the embedded default, corruptions, splits and batches."""
