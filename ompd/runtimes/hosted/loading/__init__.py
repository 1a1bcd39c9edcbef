"""Checks of a library for debuggers and the libraries that it needs, and the confinement of its process
(docs/security.md).
"""
