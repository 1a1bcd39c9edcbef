"""The program's variables.

``static``, ``choices`` and ``names`` find variables by name, ``types`` by type, ``locals`` by frame; ``reader`` reads
values. The process opens these on demand. Queries use ``names``, ``choices`` and ``reader`` directly.
"""
