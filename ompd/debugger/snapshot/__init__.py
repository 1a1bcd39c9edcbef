"""A small core of what an inspection reads."""
