"""What a thread's native stack shows of libgomp: its routines by name, and which code of constructs they called.

Nothing here knows a structure of the runtime's, or a handle. Modules of ``ompd.runtimes.libgomp`` come in.
"""
