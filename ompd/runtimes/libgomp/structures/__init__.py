"""What libgomp keeps in memory: layouts of its structures, and its threads, teams and tasks by their addresses.

Nothing here knows a stack or a handle. Modules of ``ompd.runtimes.libgomp`` come in.
"""
