"""The table of commands, and the shell's commands made from it; debuggers use the same table."""
