"""What only LLDB has: which frames its own commands leave out, and running a program under it. ``ompd/lldb_script.py``
loads it.
"""
