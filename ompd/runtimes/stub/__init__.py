"""The runtime of ``runtime_stub/``."""
