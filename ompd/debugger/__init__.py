"""The debugger's half: a stopped program's memory, symbols, threads, stacks, variables and files. It knows no team, and
no name of OpenMP: what it needs of names that compilers make up is passed to it (:class:`~.places.CompilerNames`).

:mod:`~ompd.debugger.process` puts the parts together as a :class:`ompd.contract.process.Process`, which is what others
use: the session makes one for each stop, queries and plugins read it. A part is given the parts that it needs, and may
be used by itself. No part imports the process.
"""
