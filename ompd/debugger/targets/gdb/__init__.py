"""Targets in gdb: a process, through gdb's Python, or the core file that gdb has opened."""
