"""``check``: compares a library for debuggers with our own plugin, fact by fact.

``answering`` answers the command. ``plugin`` gives the answers of our plugin to the questions of OMPD, and
``ompd_library`` gives those of the library. ``compare`` asks both sides and pairs their answers. ``known`` explains
differences by the table ``known.json``.
"""
