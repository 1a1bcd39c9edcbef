"""LLDB's adapter of ``ompd/frontends/``, and what only LLDB has.

``debugger`` gives LLDB's process, threads and frames to the commands; ``prompts`` has the methods of a command that
LLDB calls; ``commands`` lists all commands. ``code`` and ``running`` are for breakpoints and steps. ``stops`` prints a
line when the program stops. ``frames`` and ``hiding`` hide frames in LLDB's own commands, ``control`` runs a program
under LLDB for scripts.

Users load ``ompd/lldb_script.py``, which makes LLDB's commands from these modules. ``ompd.launch()`` and
``ompd.from_lldb()`` use ``control``. Nothing else imports from here.
"""
