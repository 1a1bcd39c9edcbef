"""The debugger's half: a stopped program's memory, symbols, threads, stacks, variables and files.

It does not know teams and regions. The names that OpenMP's compilers and runtimes use are in :mod:`ompd.naming`.

:mod:`~ompd.debugger.process` puts the parts together: the session creates one process for each stop. Queries use the
parts of this process, and plugins use it as a :class:`ompd.contract.process.Process`. Each part receives the parts that
it needs, and can be used by itself. No part imports the process.
"""
