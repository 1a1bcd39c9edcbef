"""Children of a process in which scikit-learn has used its libgomp: scikit_learn.py fork|multiprocessing.

A forked child has the records of the pool but none of its threads, so its first region waits for ever.
"""

import json
import multiprocessing
import os
import sys
import threading

import numpy
from sklearn._loss._loss import CyHalfSquaredError


def say(name):
    words = {"tid": threading.get_native_id(), "name": name, "object": 0, "owner": 0}
    os.write(1, (json.dumps(words) + "\n").encode())


def use_openmp():
    values = numpy.ones(64)
    CyHalfSquaredError().loss(values, values, None, numpy.empty(64), n_threads=3)


def be_child():
    say("child")
    os.write(ends[1], b"!")
    use_openmp()


use_openmp()
ends = os.pipe()
if sys.argv[1] == "fork":
    child = os.fork()
    if not child:
        be_child()
        os._exit(0)
    os.read(ends[0], 1)
    say("main")
    os.waitpid(child, 0)
else:
    # Linux's default up to Python 3.13.
    process = multiprocessing.get_context("fork").Process(target=be_child)
    process.start()
    os.read(ends[0], 1)
    say("main")
    process.join()
