"""The files that a process has mapped, where they are, and whether a file here is the one."""
