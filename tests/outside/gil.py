"""A Python thread waits for the interpreter lock, which the main thread holds while it is in a C function."""

import ctypes
import json
import os
import sys
import threading
import time


def say(name):
    words = {"tid": threading.get_native_id(), "name": name, "object": 0, "owner": 0}
    os.write(1, (json.dumps(words) + "\n").encode())


def work():
    say("waits")
    begun.set()
    while True:
        time.sleep(0)  # releases the lock and takes it again


sys.setswitchinterval(1000)  # seconds of each wait for the lock, so the waiter just sleeps
begun = threading.Event()
threading.Thread(target=work, daemon=True).start()
begun.wait()
say("main")
ctypes.PyDLL(None).pause()  # PyDLL functions keep the lock while they run
