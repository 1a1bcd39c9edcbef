"""Puts a library for debuggers to the test: ``ompd conformance``. ``standard`` has the routines of OpenMP, ``rules``
what it says of them, ``cases`` what is tried, ``laws`` what must be true of what comes back, ``sequences`` trials of
which each step depends on the one before, ``subject`` the program to try it on; ``kit`` runs it all, ``reproducer``
writes what it found as C. Commands come in by ``asking``.
"""
