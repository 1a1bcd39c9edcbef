"""Threads that wait for Python's interpreter lock and for OpenMP: gil_openmp.py EXTENSION calls|keeps."""

import ctypes
import sys
import threading
import time

sys.setswitchinterval(1000)  # seconds of each wait for the lock, so the waiter just sleeps
extension = ctypes.PyDLL(sys.argv[1])  # its functions keep the interpreter lock
if sys.argv[2] == "calls":
    extension.call_back()
else:
    threading.Thread(target=extension.keep_lock, daemon=True).start()
    while not extension.is_locked():
        time.sleep(0)  # releases the interpreter lock for a moment
    extension.want_lock()
