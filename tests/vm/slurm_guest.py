#!/usr/bin/env python3
"""Runs inside the virtual machine of slurm_test.py: a Slurm with cgroup/v2, one job of Berth's, and a login. Reports as guest.py does."""
import errno
import json
import os
import pathlib
import stat
import sys
import traceback

from guest import GPUS, check, run, say
import slurm_bed

HERE = pathlib.Path(__file__).resolve().parent
BERTH = "/usr/bin/berth"
sys.argv.append(BERTH)
import slurm_adopt_test as adopt  # noqa: E402
SIMULATED = (BERTH, "sim", "--machine", "lab-4x3090", "--")
GIB = 1 << 30
SCRIPT = f"""#!/bin/sh
#SBATCH --gres=gpu:1 --berth-memory=2G --berth-report=report.json
/usr/bin/python3 {HERE}/program.py quota {2 * GIB}
cat /proc/self/cgroup
for node in NODES; do (: <$node) 2>&1; done
setsid sleep 10000 &
"""


def lines(name):
    return run(*SIMULATED, BERTH, "slurm", "gres", "--only", name, "--node", "n1")


def make_slurm():
    slurm = slurm_bed.Slurm(lines("gres.conf"), lines("slurm.conf"), plugstack=f"optional {HERE}/spank_berth.so berth={BERTH}\n", tracked="cgroup/v2",
                            more=("Prolog=FOLDER/prolog", "Epilog=FOLDER/epilog", "PrologFlags=Alloc,Contain"))
    nodes = [slurm.path(f"dev/nvidia{number}") for number in range(GPUS)]
    for number, node in enumerate(nodes):
        os.unlink(node)
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(195, number))
        os.chmod(node, 0o666)
    for word in ("prolog", "epilog"):
        slurm.put(word, f"""#!/bin/sh
exec {' '.join(SIMULATED)} {BERTH} slurm {word} --json --conf {slurm.folder} >>{slurm.path(word + '.log')} 2>&1
""")
        os.chmod(slurm.path(word), 0o755)
    return slurm, nodes


def said_by(slurm, word):
    text = pathlib.Path(slurm.path(word + ".log")).read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def the_job_is_held(slurm, nodes):
    run("useradd", "--create-home", "--shell", "/bin/sh", "lin")
    home = pathlib.Path("/home/lin")
    (home / "job.sh").write_text(SCRIPT.replace("NODES", " ".join(nodes)))
    done = slurm.run("runuser", "-u", "lin", "--", *SIMULATED, "sbatch", "--wait", "--parsable", "-o", "job.out", "-e", "job.err", "job.sh", cwd=home, timeout=500,
                     variables={"HOME": str(home)})
    number = done.stdout.strip()
    printed = (home / "job.out").read_text() if (home / "job.out").exists() else ""
    check(done.returncode, 0, done.stderr + printed + slurm.logs())
    told = printed.splitlines()
    check(told[:2], [f"0 2 0 {2 * GIB} 2", "0"], printed)
    check(f"/job_{number}/" in told[2] and told[2].startswith("0::/"), True, printed)
    # There is no driver behind the nodes: the kernel refuses all but one before it looks for it.
    refused = [line for line in told[3:] if "not permitted" in line]
    check((len(refused), len(told) - 3), (GPUS - 1, GPUS), printed)
    report = json.loads((home / "report.json").read_text())
    check((report["engine"]["name"], report["engine"]["job"], report["isolation"]["by"]), ("slurm", number, "guard"))
    check(report["isolation"]["devices"][0]["refusals"], 2)
    say("shown", f"job {number} in {told[2]}: one GPU of {GPUS} can be opened, and the quota held")


def a_login_is_in_its_job(slurm, nodes):
    os.mkdir(slurm.path("pam.d"))
    slurm.put("pam.d/sshd", f"account required {adopt.MODULES[0]}\n")
    job = slurm.run("sbatch", "--parsable", "--uid", adopt.USER, "--chdir=/", "-o", "/dev/null", "--gres=gpu:1", "--wrap=sleep 1000").stdout.strip()
    slurm.wait(lambda: adopt.session(slurm.path("pam.d"), [], slurm.path("slurm.conf"))["answers"] == [0, 0], "job to log in to")
    seen = adopt.session(slurm.path("pam.d"), nodes, slurm.path("slurm.conf"))
    slurm.run("scancel", job)
    check(seen["variables"], [f"SLURM_JOB_ID={job}"])
    check(f"/job_{job}/step_extern" in seen["groups"], True, seen)
    check(sorted(seen["opened"]), sorted([errno.ENXIO] + (GPUS - 1) * [errno.EPERM]), seen)
    say("shown", f"a login is in {seen['groups'].strip()}: one GPU of {GPUS} can be opened")


def prolog_and_epilog_ran(slurm):
    slurm.wait(lambda: os.path.exists(slurm.path("epilog.log")) and said_by(slurm, "epilog"), "epilog")
    before, after = said_by(slurm, "prolog"), said_by(slurm, "epilog")
    say("shown", {"prolog": before, "epilog": after})
    check((len(before), len(after)), (1, 1))
    check("sleep 10000" in run("ps", "-eo", "args"), False, "the process that the job left")
    slurm.wait(lambda: "State=IDLE" in slurm.run("scontrol", "show", "node").stdout.replace("+", " "), "an idle node again")


def main():
    check(run("stat", "--file-system", "--format=%T", "/sys/fs/cgroup").strip(), "cgroup2fs")
    # Slurm listens on no address while the machine has only that of loopback.
    run("ip", "address", "add", "10.0.0.1/32", "dev", "lo")
    slurm, nodes = make_slurm()
    with slurm:
        say("started")
        the_job_is_held(slurm, nodes)
        prolog_and_epilog_ran(slurm)
        a_login_is_in_its_job(slurm, nodes)
    say("done")
    run("systemctl", "poweroff", code=None)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        say("failed", traceback.format_exc())
        sys.exit(1)
