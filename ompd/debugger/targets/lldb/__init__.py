"""Targets in LLDB, processes and cores; and running a process under it."""
