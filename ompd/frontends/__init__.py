"""What the front ends of LLDB and gdb share; neither debugger is imported here.

``commands`` has the commands of a debugger's prompt, for any debugger that gives what ``debugger`` lists.
``ompd/lldb/`` and ``ompd/gdb/`` are the two adapters.
"""
