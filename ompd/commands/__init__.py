"""One table of commands, and what the shell makes of it; LLDB's front end makes its commands of the same table."""
