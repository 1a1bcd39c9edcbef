"""DMPL libraries of others, each in a process of its own.

``worker`` is that process, and the protocol which it and the debugger speak; ``library`` is the debugger's side of it:
:class:`~ompd.contract.dmpl.Library` for a library in C.
"""
