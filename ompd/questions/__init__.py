"""One file for each query: handles in, records out.

``facts`` is what all queries share, ``places`` the way from an address to the source, ``stacks`` a room of its own, and
``waits`` a part of ``threads``. Commands and :class:`ompd.inspection.Inspection` come in by each ``ask``.
"""
