"""Readers of file formats: ELF, DWARF, unwind tables, core notes and ``/proc`` texts. Bytes in, facts out.

This package does not depend on a target or on OpenMP.
"""
