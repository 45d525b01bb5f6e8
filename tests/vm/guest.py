#!/usr/bin/env python3
"""Runs inside the virtual machine of systemd_test.py, at each boot. Every line on the second serial port is `word` or `word JSON`; each
boot ends with `done`, or with `failed` and the problem."""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import traceback

STATE = pathlib.Path("/var/lib/berth-check")
GPUS = 4
TRY = """for n in 0 1 2 3; do
  case "$( (: < /dev/nvidia$n) 2>&1 )" in *"not permitted"*) ;; *) echo "$n" ;; esac
done
"""


def say(word, told=None):
    with open("/dev/ttyS1", "w") as host:
        host.write(word + ("" if told is None else " " + json.dumps(told)) + "\n")


def wait_until(condition, what, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def run(*words, code=0, **more):
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **more)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{words}: {done.returncode}, wanted {code}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(real, wanted, what=""):
    if real != wanted:
        raise AssertionError(f"{what}: {real!r} is not {wanted!r}")


class Broker(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(120)
        self.sock.connect("/run/berth/berth.sock")


def call(method, path, body=None):
    with contextlib.closing(Broker("berth")) as broker:
        broker.request(method, path, None if body is None else json.dumps(body))
        return json.loads(broker.getresponse().read())


def job(number):
    return call("GET", f"/v1/jobs/{number}")["job"]


def ended(number, state="done"):
    found = wait_until(lambda: (one := job(number)) and one["ended"] and one, f"the end of job {number}")
    check(found["state"], state, f"job {number}")
    return found


def runs(number):
    return wait_until(lambda: (one := job(number))["state"] == "running" and one["pids"] and one, f"job {number} runs")


def as_user(user, command, **more):
    """Runs the command in a login session, which pam_systemd creates."""
    return run("su", "-l", user, "-c", command, **more)


def queue(user, words):
    return int(as_user(user, f"berth run --queue {words}").split()[-1])


def main_process():
    return int(run("systemctl", "show", "-P", "MainPID", "berth"))


def answers():
    with contextlib.suppress(OSError, http.client.HTTPException):
        return call("GET", "/v1/jobs") is not None
    return False


def make_nodes():
    for n in range(GPUS):
        run("mknod", "-m", "666", f"/dev/nvidia{n}", "c", 195, n)


# The steps of the test.


def the_unit_serves_everybody():
    for user in ("lin", "mei"):
        run("useradd", "--create-home", "--shell", "/bin/sh", user)
    check(run("systemctl", "is-active", "berth").strip(), "active")
    first = queue("lin", "--gpus 1 -- sh -c 'cat /proc/self/cgroup; id -un; echo in $PWD'")
    ended(first)
    told = as_user("lin", f"berth logs {first}").splitlines()
    check(told[0].startswith("0::/system.slice/berth.service/"), True, told)
    check(told[1:], ["lin", "in /home/lin"])
    hidden = json.loads(as_user("mei", "berth jobs --all --json"))["jobs"]
    check([("command" in one, one["user"]) for one in hidden], [(False, "lin")])


def jobs_outlive_logouts_and_restarts_of_the_service(state):
    go = STATE / "go"
    state["long"] = queue("lin", f"--gpus 1 -- sh -c 'until [ -e {go} ]; do sleep 0.1; done; exit 7'")
    process = runs(state["long"])["pids"]
    run("loginctl", "terminate-user", "lin", code=None)
    check(runs(state["long"])["pids"], process, "after the logout")
    run("systemctl", "restart", "berth")
    wait_until(answers, "the broker after its restart")
    check(runs(state["long"])["pids"], process, "after the restart")
    before = main_process()
    os.kill(before, 9)
    wait_until(lambda: main_process() not in (0, before) and answers(), "systemd starts a killed broker")
    check(runs(state["long"])["pids"], process, "after the kill")
    run("systemctl", "stop", "berth")
    go.touch()
    wait_until(lambda: not pathlib.Path(f"/proc/{process[0]}").exists(), "the job ends while no broker is there")
    run("systemctl", "start", "berth")
    wait_until(answers, "the broker after its start")
    check(ended(state["long"], "failed")["outcome"]["exit_code"], 7)


def the_kernel_keeps_whole_logins_from_devices():
    sees = f"sh {STATE}/try"
    check(as_user("mei", sees).split(), ["0", "1", "2", "3"], "in mode observe")
    pathlib.Path("/etc/berth").mkdir(exist_ok=True)
    pathlib.Path("/etc/berth/berth.toml").write_text('mode = "enforce"\n')
    run("systemctl", "restart", "berth")
    wait_until(answers, "the broker in mode enforce")
    check(as_user("mei", sees).split(), [], "in mode enforce")
    # systemd may change its own groups in these ways; the filters must survive.
    run("systemctl", "daemon-reload")
    run("systemctl", "set-property", "--runtime", "user.slice", "TasksMax=90%")
    wait_until(lambda: as_user("mei", sees).split() == [], "the filter is there again", 30)
    ran = queue("lin", f"--gpus 1 -- sh -c 'echo $CUDA_VISIBLE_DEVICES; {sees}'")
    ended(ran)
    told = as_user("lin", f"berth logs {ran}").split()
    check((len(told), told[:1] == told[1:]), (2, True), told)
    check(job(ran)["access"], "kernel")
    # In a terminal session, a lease exempts the job's processes from the session's filter.
    simulated = f"berth sim --machine lab-4x3090 -- env -u BERTH_RUNTIME_DIR -u BERTH_STATE_DIR berth run --gpus 1 -- {sees}"
    check(len(as_user("mei", simulated).split()), 1, "a lease in a session")
    check(as_user("mei", sees).split(), [], "afterwards")


def leave_jobs_for_the_restart(state):
    ran = STATE / "ran"
    state["lost"] = queue("lin", f"--gpus 1 -- sh -c 'echo lost >> {ran}; sleep 10000'")
    state["again"] = queue("lin", f"--requeue --gpus 1 -- sh -c 'echo again >> {ran}; [ $BERTH_RESTARTS = 1 ] || sleep 10000'")
    state["behind"] = queue("lin", f"--after {state['again']} --gpus 4 -- true")
    wait_until(lambda: ran.exists() and len(ran.read_text().split()) == 2, "both run")


def the_restart_is_told(state):
    check(job(state["lost"])["state"], "lost")
    check(ended(state["again"])["restarts"], 1)
    ended(state["behind"])
    check(sorted((STATE / "ran").read_text().split()), ["again", "again", "lost"])
    check(job(state["long"])["outcome"]["exit_code"], 7, "of what ended before")


def work_until_the_power_goes():
    """Submits jobs that wait and short jobs that end, and reports each confirmed job until the power fails."""
    environment = ["PATH=/usr/bin:/bin"]
    say("cut")
    while True:
        waits = call("POST", "/v1/jobs", {"queued": True, "state": "held", "command": ["true"], "request": {"gpus": 1},
                                          "spec": {"folder": "/", "umask": 18, "environment": environment}})["job"]["id"]
        short = call("POST", "/v1/jobs", {"queued": True, "command": ["sh", "-c", f"echo >> {STATE}/once-$BERTH_JOB; sync {STATE}/once-$BERTH_JOB; exit 3"],
                                          "request": {"gpus": 0}, "spec": {"folder": "/", "umask": 18, "environment": environment}})["job"]["id"]
        say("confirmed", {"jobs": [waits, short], "at": time.monotonic()})
        over = call("GET", f"/v1/jobs/{short}?wait=ended")["job"]
        say("ended", {"job": short, "exit_code": over["outcome"]["exit_code"], "at": time.monotonic()})


def tell_what_is_left():
    known = call("GET", "/v1/jobs?all")["jobs"]
    rows = wait_until(lambda: all(one["state"] not in ("running", "waiting") for one in known) and known or
                      known.__setitem__(slice(None), call("GET", "/v1/jobs?all")["jobs"]), "the short jobs end")
    say("left", {"jobs": {one["id"]: [one["state"], (one["outcome"] or {}).get("exit_code")] for one in rows},
                 # After a job is lost, another job may get its number.
                 "ran": {path.name.removeprefix("once-"): len(path.read_bytes()) for path in STATE.glob("once-*")}})
    for path in STATE.glob("once-*"):
        path.unlink()


def main():
    kept = STATE / "state.json"
    state = json.loads(kept.read_text()) if kept.exists() else {"start": 0}
    state["start"] += 1
    make_nodes()
    wait_until(answers, "the broker serves")
    say("started", state["start"])
    if state["start"] == 1:
        (STATE / "try").write_text(TRY)
        the_unit_serves_everybody()
        say("shown", "the unit serves everybody")
        jobs_outlive_logouts_and_restarts_of_the_service(state)
        say("shown", "jobs outlive logouts, restarts and kills of the service")
        the_kernel_keeps_whole_logins_from_devices()
        say("shown", "the kernel keeps whole logins from devices")
        leave_jobs_for_the_restart(state)
    elif state["start"] == 2:
        the_restart_is_told(state)
        say("shown", "a restart of the machine")
    else:
        tell_what_is_left()
    kept.write_text(json.dumps(state))
    if state["start"] == 1:
        run("systemctl", "reboot")
        return
    run("sync")
    work_until_the_power_goes()


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        say("failed", traceback.format_exc() + run("journalctl", "-b", "-u", "berth", "--no-pager", "-n", "30", code=None))
        sys.exit(1)
