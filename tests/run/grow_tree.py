"""grow_tree.py MARK [quiet] [stubborn]: starts a child, a grandchild, a process in its own session, and a double-forked process. All of
them sleep."""
import os
import signal
import sys
import time


def sleep_for_ever():
    if "stubborn" in sys.argv:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(60)


def fork(then):
    pid = os.fork()
    if pid == 0:
        then()
        os._exit(0)
    return pid


def in_own_session():
    os.setsid()
    sleep_for_ever()


def daemon():
    os.setsid()
    fork(in_own_session)


def with_grandchild():
    fork(sleep_for_ever)
    sleep_for_ever()


fork(with_grandchild)
fork(in_own_session)
os.waitpid(fork(daemon), 0)
time.sleep(0.05)
if "quiet" not in sys.argv:
    print("grown", flush=True)
sleep_for_ever()
