"""The handles of :mod:`ompd.contract.plugin` for a hosted library. Facts that no OMPD call returns are unknown.

``space`` is the runtime. ``threads``, ``regions`` and ``tasks`` find its handles and keep them. A library identifies
handles by pointers. It may return two different pointers for one region or task, and can only compare two handles, so
``identities`` groups the handles of the same object. ``queries`` makes calls for many handles at a time.
"""
