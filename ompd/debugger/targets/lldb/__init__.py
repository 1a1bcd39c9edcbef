"""What LLDB debugs, a process or a core; and running one under it."""
