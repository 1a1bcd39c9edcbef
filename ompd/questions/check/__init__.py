"""``check``: compares a library for debuggers with our own plugin, fact by fact.

``answering`` answers the command. ``interface`` defines the questions of OMPD and answers them from our plugin;
``hosted`` answers them from a library. ``ahead`` sends many calls in one exchange, and ``identities`` finds equal
handles. ``compare`` asks both sides, ``facts`` compares two answers, and ``known`` explains differences by the table
``known.json``.
"""
