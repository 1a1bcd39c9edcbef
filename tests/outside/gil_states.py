"""A C thread holds Python's interpreter lock by another thread's state: gil_states.py EXTENSION 0|1."""

import ctypes
import sys

ctypes.PyDLL(sys.argv[1]).lend(int(sys.argv[2]))  # PyDLL: its functions keep the interpreter lock
