"""A small core of what an inspection reads: ``snapshot`` makes it, and uses the process as queries do."""
