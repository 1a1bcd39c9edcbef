"""Tests of ``ompd conformance`` and their shared code."""
