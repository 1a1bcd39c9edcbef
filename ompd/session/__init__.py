"""A target and what was found in it: opened, asked at one moment, closed."""

from ompd.session.session import LoadedRuntime, Session

__all__ = ["LoadedRuntime", "Session"]
