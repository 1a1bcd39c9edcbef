"""Threads, what the C library keeps of them, and where each one has its thread-local variables.

``threads`` and ``tls`` are made by the process; ``glibc`` and ``emutls`` know structures of C and compiler libraries.
"""
