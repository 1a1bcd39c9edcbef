"""The wait-for graph of one moment. ``build`` makes it from ``threads``, ``tasks`` and ``systems``; the last has the
waits outside of OpenMP. ``holders`` finds likely holders if no runtime records one. ``others`` finds other tasks that
may end a wait.
"""
