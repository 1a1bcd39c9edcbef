"""What DWARF says of types and variables, and values that are read by it."""
