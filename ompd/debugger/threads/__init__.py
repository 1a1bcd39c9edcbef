"""Threads as the C library keeps them, and where each one's thread-local variables are."""
