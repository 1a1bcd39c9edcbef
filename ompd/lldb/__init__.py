"""LLDB's adapter of ``ompd/frontends/``, and what only LLDB has.

``debugger`` gives the commands LLDB's process, threads and frames; ``prompts`` is what LLDB calls of a command;
``commands`` lists all of them. ``stops`` prints a line when the program stops. ``frames`` says which frames LLDB's own
commands leave out, ``control`` runs a program under LLDB.

``ompd/lldb_script.py``, which users load, makes LLDB's commands of it; ``ompd.launch()`` and ``ompd.from_lldb()`` take
``control``. Nothing else imports from here.
"""
