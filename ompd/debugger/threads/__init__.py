"""Threads, their structures in the C library, and the addresses of their thread-local variables.

``glibc`` and ``emutls`` read structures of the C library and of compiler libraries. ``gone_code`` finds threads whose
code was unloaded.
"""
