"""The places of members in the runtime's structures, and the proof that they are right. The places are published by
the runtime, or come from debug information or from tables.

This folder imports nothing from the other folders of ``libomp``, which use its ``structures`` and ``layouts``.
"""
