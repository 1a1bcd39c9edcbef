"""Tests a library for debuggers: ``ompd conformance``.

``standard`` lists the routines of OMPD and ``rules`` the standard's sentences. ``cases``, ``laws`` and ``sequences``
make the test cases: wrong arguments, right arguments, and steps that build on each other. ``subject`` prepares the
program, ``trying`` plays the cases, ``kit`` runs everything for OMPD and ``dmpl`` for DMPL. ``reproducer`` writes a
finding as a C program. The command calls ``asking``.
"""
