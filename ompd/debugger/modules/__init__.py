"""The files that a process has mapped, where they lie, and whether a file here is the one."""
