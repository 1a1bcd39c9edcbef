"""Readers of file formats: ELF, DWARF, unwind tables, core notes and ``/proc`` texts. Bytes in, facts out.

Nothing here knows a target or OpenMP.
"""
