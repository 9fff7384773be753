"""Benchmarks behind `oblivec bench`; their committed output is in benchmarks/results."""
