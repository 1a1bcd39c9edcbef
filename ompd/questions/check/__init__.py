"""``check``: compares a library for debuggers with our own plugin, fact by fact.

``answering`` answers the command. ``plugin`` gives our plugin's answers to the questions of OMPD, and
``library_answers`` those of the library. ``compare`` asks both sides and pairs their answers. ``known`` explains
differences by the table ``known.json``.
"""
