"""What threads wait for outside of OpenMP: in which system call, for which object of the C library or of Python."""
