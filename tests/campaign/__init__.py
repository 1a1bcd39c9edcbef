"""A campaign on programs that nobody here wrote: ``python -m tests.campaign``.

``programs`` builds them from a folder that is given, ``samples`` asks ``ompd`` of them at random moments, and ``laws``
judges what it answers, which needs no knowledge of the program.
"""
