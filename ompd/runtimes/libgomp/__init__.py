"""GNU libgomp. It has no OMPD and no OMPT, and in distributions no symbols of its own.

Its structures are read by layouts that were proven on the very image. Stacks show what it does not keep.

From the bottom up: ``layouts`` and ``structures`` (memory), ``stacks`` (native stacks), ``members`` (which teams a
thread is in). The subjects: ``states``, ``locks``, ``barriers``, ``points``, ``target_regions``. ``handles`` call
these. ``tasks``, ``constructs`` and ``registered`` go over all handles of a process; ``runtime`` keeps them. ``proof``
makes a runtime of a module, and ``plugin`` is what others import.
"""
