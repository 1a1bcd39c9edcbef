"""How fast ``ompd`` is, measured from outside, against gdb on the same cores: ``python -m bench --help``."""
