"""What debug information says of the source: lines, functions and their names, calls."""
