"""The places of members in the runtime's structures, and the proof that they are right. The runtime publishes the
places, or they come from debug information or from tables.

This folder imports nothing from the other folders of ``libomp``, which use its ``structures`` and ``layouts``.
"""
