"""The handles of :mod:`ompd.contract.plugin` for a hosted library. Facts for which OMPD has no call are unknown.

``space`` is the runtime; ``threads``, ``regions`` and ``tasks`` find and keep its handles. A library names them by
pointers, may return two pointers for one region or task, and can only compare two of them: ``identities`` finds out
which are the same. ``queries`` makes the calls for many handles at a time.
"""
