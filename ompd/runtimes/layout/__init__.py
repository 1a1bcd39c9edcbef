"""Layouts of a runtime's structures, with one file for each source of layouts."""
