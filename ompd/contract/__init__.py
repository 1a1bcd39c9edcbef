"""The border between the two halves: the modules that a plugin may import, and the interfaces that it provides. No
input or output.
"""
