"""External OMPD libraries, each in a separate process, with the interface of a plugin.

This package is imported only if the user has named a library.
"""
