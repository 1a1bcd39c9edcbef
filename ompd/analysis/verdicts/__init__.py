"""Verdicts on the ends of waits.

``verdicts`` makes them, ``chains`` finds the chain of waits of each, and ``sentences`` describes each in a sentence.
``samples`` compares the verdicts of several looks at one process.
"""
