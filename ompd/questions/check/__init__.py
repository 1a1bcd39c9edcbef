"""``check``: compares a library for debuggers with our own plugin, fact by fact.

``answering`` answers the command. ``plugin`` has our plugin's answers to the questions of OMPD, ``library`` those of
the library. ``compare`` asks both sides, and ``known`` explains differences by the table ``known.json``.
"""
