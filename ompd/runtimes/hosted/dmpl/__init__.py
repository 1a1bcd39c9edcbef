"""DMPL libraries in C, each in a separate process.

``client`` is the debugger's side, a :class:`~ompd.contract.dmpl.Library`. ``worker`` and ``table`` run in the library's
process. ``protocol`` has the numbers of functions and callbacks. ``beside`` uses the DMPL functions of a library that
may also serve OMPD.
"""
