"""OMPD libraries of others, hosted: each runs in a process of its own, and answers as any plugin does.

Nothing of this is imported unless the user has named a library.
"""
