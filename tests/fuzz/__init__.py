"""Damaging good cores and the files they name, thousands of times, and checking what is told of them."""
