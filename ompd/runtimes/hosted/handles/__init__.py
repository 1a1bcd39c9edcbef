"""The handles of :mod:`ompd.contract.plugin` on top of a hosted library: what OMPD has a call for is the library's
answer, the rest is unknown.

The library names its handles by pointers, may return two pointers for one thing, and can only compare two of them.
``regions``, ``tasks`` and ``threads`` make one object of all handles of one thing, ``identities`` finds out which these
are. ``asking`` makes calls for many handles at a time.
"""
