"""What plugins of several runtimes need: reading that notices lost pages, walks that end, stacks, identifiers, ICVs.

No runtime is known here. Plugins come in, those that ompd does not bring, too; the debugger's half does not.
"""
