"""DWARF 2 to 5 as it is in a file: sections, units, lines, names, expressions."""
