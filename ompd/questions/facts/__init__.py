"""The parts that all queries share. Only queries import them.

``answers`` begins and ends a query. ``gathering`` collects facts that may fail one by one; ``damage`` decides about
targets that have lost something. ``matching`` finds the OpenMP threads, ``membership`` their places in their teams,
``ancestry`` their ancestors, and ``signals`` their signals. ``trees`` orders rows.
"""
