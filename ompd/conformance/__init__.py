"""Puts a library for debuggers to the test: ``ompd conformance``. ``standard`` has what OpenMP says of each routine,
``cases`` what is tried, ``laws`` what must be true of what comes back, ``subject`` the program to try it on, ``kit``
runs it all, ``reproducer`` writes what it found as C, ``report`` as JUnit. Commands come in by ``kit``.
"""
