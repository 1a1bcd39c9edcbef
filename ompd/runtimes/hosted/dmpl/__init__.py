"""DMPL libraries in C, each in a process of its own.

``client`` is the debugger's side, :class:`~ompd.contract.dmpl.Library`; ``worker`` and ``table`` serve in that process,
``protocol`` is what both send; ``beside`` uses the DMPL functions of a library that serves OMPD.
"""
