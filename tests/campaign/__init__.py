"""A campaign on third-party programs: ``python -m tests.campaign``.

``programs`` builds them from a given folder, and ``samples`` asks ``ompd`` about them at random moments. ``laws``
judges the answers without knowledge of the program.
"""
