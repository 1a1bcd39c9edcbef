"""``ompd mcp``: the questions as tools of the Model Context Protocol, for agents.

``allowed`` has the targets that the person who starts the server allows. ``tools`` has the five tools, ``marking``
makes plain values of records and marks what comes from the target, and ``pages`` keeps each answer small. ``server``
speaks the protocol; only it imports the SDK.
"""
