"""The debugger's half: memory, symbols, threads, registers, stacks and files of a stopped program. It does not know
what a team is.
"""
