"""The files that a process has mapped, their addresses, and the proof that a file here is the mapped one."""
