"""The wait-for graph of one moment: ``build`` makes it of ``threads``, ``tasks`` and ``systems`` (waits outside of
OpenMP); ``holders`` reasons out who holds what no runtime records.
"""
