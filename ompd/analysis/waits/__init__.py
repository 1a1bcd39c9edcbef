"""The wait-for graph of one moment. ``build`` makes it of ``threads``, ``tasks`` and ``systems``, which has the waits
outside of OpenMP. ``holders`` finds likely holders if no runtime records one, ``others`` what else may end a wait.
"""
