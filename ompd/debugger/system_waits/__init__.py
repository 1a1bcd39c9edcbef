"""The waits of threads outside of OpenMP, by their system calls and by the objects of the C library and of Python."""
