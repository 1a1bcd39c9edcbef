"""Types and variables in DWARF, and values formatted by their types."""
