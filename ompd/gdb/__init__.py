"""gdb's adapter of ``ompd/frontends/``, and what only gdb has.

``debugger`` gives the commands gdb's inferior, threads and frames; ``prompts`` has the methods of a command that gdb
calls; ``commands`` lists all commands and adds them to gdb. ``code`` and ``running`` are for breakpoints and steps.
``frames`` hides frames in gdb's own ``bt``, ``functions`` has the functions for expressions and conditions of
breakpoints. Users load ``ompd/gdb_script.py``, the only importer of this package. The package uses only gdb's Python
interface of gdb 12; the tests check that with a list.
"""
