"""GNU libgomp: no OMPD, no OMPT, and in distributions no symbols of its own.

Its structures are read by layouts that were proven on the very image; what it does not keep, stacks show. From the
bottom up: ``structures`` and ``stacks``; which teams a thread is in (``members``) and where it waits; ``handles`` of
threads, regions and tasks; what is found out of all of them; and ``plugin``, where it is put together, and which alone
is imported from outside.
"""
