"""Helpers for the tests of ``ompd check``."""
