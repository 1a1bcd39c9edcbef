"""Layouts of a runtime's structures. Each source of layouts has its own file."""
