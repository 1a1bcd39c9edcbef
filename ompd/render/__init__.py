"""Output of records as text, JSON or a schema, without access to a target.

``answers`` has the lines of each command, ``words`` the formats they share, ``columns`` and ``terminal`` print them;
``json`` and ``schema`` are the public format, ``summary`` the line at each stop under LLDB.
"""
