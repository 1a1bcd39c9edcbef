"""Layouts of a runtime's structures, by their sources."""
