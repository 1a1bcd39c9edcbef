"""The formats of today's files: bytes in, facts out.

Nothing here knows a target or OpenMP; it imports failures and limits alone.
"""
