"""A program that is open for queries: ``session`` opens it and closes it, ``stop`` is one moment of it, ``live`` has a
running process stop, and copies what a query reads.

The only room where the debugger's half meets the runtimes' half. Queries and commands come in by :class:`Session`.
"""

from ompd.session.session import Session
from ompd.session.stop import LoadedRuntime

__all__ = ["LoadedRuntime", "Session"]
