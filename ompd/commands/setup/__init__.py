"""Installs and removes files in a user's account: shell completion, the manual page, and the lines that load the
commands into debuggers.
"""
