"""gdb's adapter of ``ompd/frontends/``, and what only gdb has.

``debugger`` gives the commands gdb's inferior, threads and frames; ``prompts`` is what gdb calls of a command;
``commands`` lists all of them and adds them to gdb. ``frames`` says which frames gdb's own ``bt`` leaves out,
``functions`` are those that expressions and conditions of breakpoints can use. ``ompd/gdb_script.py``, which users
load, calls that; nothing else imports from here. What is used of gdb's Python is in that of gdb 12, which a list in the
tests checks.
"""
