"""One file or room for each query: handles in, records out.

``facts`` is what all queries share, ``places`` the way from an address to the source. Commands and
:class:`ompd.inspection.Inspection` come in by each ``ask``.
"""
