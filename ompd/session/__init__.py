"""A program that is open for queries: ``session`` opens and closes it, ``stop`` is one moment of it, and ``live`` stops
a running process and copies the memory that a query reads.

The debugger's half and the runtimes' half meet only here. Queries and commands use :class:`Session`.
"""

from ompd.session.session import Session
from ompd.session.stop import LoadedRuntime

__all__ = ["LoadedRuntime", "Session"]
