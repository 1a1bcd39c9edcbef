"""``python -m ompd``: the same as the installed command."""

from ompd.start import main

main()
