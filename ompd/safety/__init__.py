"""Protection from hostile input: limits of work and memory, safe opening, reading and writing of files, file owners,
and isolated imports inside a debugger.
"""
