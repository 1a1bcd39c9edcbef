"""What gdb debugs: a process, as its Python gives it, or the core file that it has opened."""
