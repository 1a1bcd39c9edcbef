"""Records to text, JSON or a schema; no target is seen here.

``answers`` has the lines of each command, ``words`` what they share, ``columns`` and ``terminal`` print them;
``json`` and ``schema`` are the public format, ``summary`` the line at each stop under LLDB.
"""
