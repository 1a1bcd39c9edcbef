"""What only gdb has.

``prompts`` is what gdb calls of a command, and the commands of the table; ``commands`` are those that the shell does
not have, and adds all of it to gdb. ``frames`` says which frames gdb's own ``bt`` leaves out, ``functions`` are those
that expressions and conditions of breakpoints can use. ``ompd/gdb_script.py``, which users load, calls that; nothing
else imports from here. What is used of gdb's Python is in that of gdb 12, which a list in the tests checks.
"""
