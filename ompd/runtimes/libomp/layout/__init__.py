"""Where the members of the runtime's structures are, and what proves it: what it publishes, debug information, tables.

Imports nothing of the other rooms. ``structures`` is what they use.
"""
