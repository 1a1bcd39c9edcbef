"""The source in debug information: lines, functions and their names, calls."""
