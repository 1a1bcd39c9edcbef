"""Answers about libraries: what ``check``, ``conformance`` and ``layout`` print."""
