"""The members of the runtime's structures, and the proof of their places: published by the runtime, or from debug
information or tables.

Imports nothing of the other folders. They use ``structures``.
"""
