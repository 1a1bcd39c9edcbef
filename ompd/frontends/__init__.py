"""What the front ends of LLDB and gdb share; neither debugger is imported here.

``commands`` has the commands of a debugger's prompt, for any debugger that gives what ``debugger`` lists; those of the
shell's table are in ``prompt``. ``selecting`` finds threads by their OpenMP numbers, ``printing`` is ``print``,
``walking`` and ``walker`` are breakpoints and steps, ``events`` the places at which runtimes announce theirs.
``ompd/lldb/`` and ``ompd/gdb/`` are the two adapters.
"""
