"""Code that the front ends of LLDB and gdb share; neither debugger is imported here.

``commands`` has the commands of a debugger's prompt, for any debugger that implements ``debugger``. ``prompt`` has
their options, help and output. ``selecting`` finds threads by their OpenMP numbers, ``printing`` is ``print``,
``spots`` chooses the places of breakpoints, ``walking`` and ``walker`` are steps, ``events`` has the runtimes'
breakpoint routines, ``wrappers`` tells clang's functions around constructs in stacks. ``ompd/lldb/`` and ``ompd/gdb/``
are the two adapters.
"""
