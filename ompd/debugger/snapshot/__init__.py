"""A small core of what an inspection reads: ``snapshot``, for the query of that name, uses the process as queries do.

``environment`` finds the strings on the initial stack, which a snapshot hides, and the process reads.
"""
