"""Damage good cores and the files they name, thousands of times, and check the answers."""
