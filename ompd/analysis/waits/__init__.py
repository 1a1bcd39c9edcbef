"""The wait-for graph of one moment.

``build`` makes the graph from the nodes in ``threads``, ``tasks`` and ``systems`` (waits outside of OpenMP).
``holders`` finds the likely holders of an object if no runtime records its holder. ``others`` finds other tasks that
may end a wait.
"""
