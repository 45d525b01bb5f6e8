# Written by Berth into the folder that BERTH_STACKS names, beside which PYTHONPATH points. It lets `berth stacks` and the watch for hangs ask
# this process for its Python stacks by a signal that nothing else uses. No program is changed by it: on any problem it does nothing.


def _listen(known=[]):
    import faulthandler
    import os
    import signal
    number = signal.SIGRTMIN + 7
    if signal.getsignal(number) is not signal.SIG_DFL and not known:
        return  # the program's parent had a use for it
    path = os.path.join(os.environ["BERTH_STACKS"], "%d.txt" % os.getpid())
    file = open(path, "w")
    # The file must stay open: faulthandler has only its number.
    known[:] = [file]
    faulthandler.register(number, file=file, all_threads=True, chain=False)


def _begin():
    import os
    import sys
    try:
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_listen_again)
        _listen()
    except Exception:
        pass
    # Another module of this name, which this one hides, is to run as without us.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as problem:
        if getattr(problem, "name", None) != "sitecustomize":
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


def _listen_again():
    try:
        _listen()
    except Exception:
        pass


_begin()
