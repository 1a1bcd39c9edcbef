"""The debugger's half: a stopped program's memory, symbols, threads, stacks, variables and files.

It knows no teams and regions. All that it needs of the names of OpenMP's compilers and runtimes is in
:mod:`ompd.naming`.

:mod:`~ompd.debugger.process` puts the parts together: the session creates one process for each stop, queries use its
parts, and plugins use it as a :class:`ompd.contract.process.Process`. Each part gets the parts that it needs, and can
be used by itself. No part imports the process.
"""
