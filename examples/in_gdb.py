"""Stop a program in gdb where a thread of a team comes to a function, and show where all threads are then.

gdb -batch -ex "python function = 'NAME'" -x examples/in_gdb.py PROGRAM
"""

import sys
from pathlib import Path

import gdb

sys.path.insert(0, str(Path(__file__).parents[1]))  # where this checkout's ompd is

import ompd

gdb.execute(f"break {globals().get('function', 'main')}", to_string=True)
gdb.execute("run", to_string=True)
with ompd.from_gdb() as session:
    for thread in session.ask_threads():
        print(thread.thread_num, thread.team_size, thread.where.function if thread.where else "-")
gdb.execute("kill", to_string=True)
