"""DWARF 2 to 5 as it lies in a file: sections, units, lines, names, expressions."""
