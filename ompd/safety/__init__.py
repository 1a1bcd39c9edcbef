"""Input is hostile: limits of work and memory, whose a file is, opening, reading and writing it, and imports inside a
debugger.
"""
