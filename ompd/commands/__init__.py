"""One table of commands, from which the shell's and LLDB's commands are made."""
