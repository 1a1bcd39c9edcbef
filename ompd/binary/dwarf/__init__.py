"""DWARF 2 to 5 in files: sections, units, lines, names, expressions."""
