"""Helpers of plugins, for any runtime: reading that notices lost pages, walks that end, stacks, identifiers, ICVs.

Any plugin may import them, also those of other distributions. The debugger's half does not.
"""
