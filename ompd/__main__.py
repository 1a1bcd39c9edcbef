"""``python -m ompd``: the same as the installed command."""

from ompd.start import main

if __name__ == "__main__":  # workers of mpi4py.futures import it, too
    main()
