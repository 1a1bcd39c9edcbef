"""GNU libgomp. It has no OMPD and no OMPT, and in distributions no symbols of its own.

Its structures are read with layouts that are proven to fit the very file in the process. Facts that libgomp does not
keep are derived from stacks.

From the bottom up: ``layouts`` and ``structures`` (memory), ``stacks`` (native stacks), ``members`` (the teams that a
thread is in). ``states``, ``locks``, ``barriers``, ``points`` and ``target_regions`` each cover a subject; ``handles``
calls them. ``tasks``, ``constructs`` and ``registered`` examine all handles of a process, and ``runtime`` keeps the
handles. ``proof`` makes the ``Runtime`` for a module. ``plugin`` is the entry point from outside.
"""
