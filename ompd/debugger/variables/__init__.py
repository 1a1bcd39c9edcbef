"""The program's variables.

``static``, ``choices`` and ``names`` find variables by name, ``types`` by type, ``locals`` by frame; ``reader`` reads
values. The process imports these modules on demand.
"""
