"""``check``: everything that OMPD can be asked, of a library for debuggers and of our own plugin, fact by fact.

``interface`` has the questions, and our plugins' answers as OMPD has them, ``hosted`` those of a library (``ahead``:
many calls in one exchange, ``identities``: which handles are of the same thing), ``compare`` asks both sides, ``facts``
says whether two answers are the same, ``known`` which differences are known, as ``known.json`` lists them.
``answering`` puts it together.
"""
