"""GNU libgomp. It has no OMPD and no OMPT, and in distributions no symbols of its own.

Its structures are read with layouts that were proven on the very image. Facts that it does not keep come from stacks.

From the bottom up: ``layouts`` and ``structures`` (memory), ``stacks`` (native stacks), ``members`` (the teams that a
thread is in). Subjects: ``states``, ``locks``, ``barriers``, ``points``, ``target_regions``. ``handles`` call them.
``tasks``, ``constructs`` and ``registered`` go over all handles of a process, and ``runtime`` keeps the handles.
``proof`` makes the runtime of a module. ``plugin`` is the entry point from outside.
"""
