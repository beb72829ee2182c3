"""What the numbers were measured on: the processor, the tree, and who else was using the cores."""

import os
import pathlib
import platform
import resource
import statistics
import subprocess
import time

NO_COMMIT = "unknown"

TREE = pathlib.Path(__file__).resolve().parents[2]


def processor():
    named = (line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name"))
    return next((line.split(":", 1)[1].strip() for line in named), platform.machine())


def summary():
    return (f"{processor()}, {len(os.sched_getaffinity(0))} cores{_shared_cores()}{_guest()}, "
            f"{platform.system()} {platform.release()}")


def _shared_cores():
    """Whether what the system takes for cores are threads of fewer. A guest may be told nothing of that."""
    mine = os.sched_getaffinity(0)
    siblings = {_read(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list") for number in mine}
    return f" (threads of {len(siblings)})" if "" not in siblings and len(siblings) < len(mine) else ""


def _guest():
    flags = next((line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("flags")), "")
    return " of a virtual machine" if "hypervisor" in flags.split() else ""


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def lines_sentence(round_trips):
    """Of the samples in ns: cores that were moved apart meanwhile make a run of two halves."""
    if not round_trips:
        return "not measured"
    return (f"to another core and back in {statistics.median(round_trips):.0f} ns "
            f"({min(round_trips):.0f} to {max(round_trips):.0f}; {len(round_trips)} samples)")


def from_the_tree(word):
    """A path, or an argument that is one, as anybody can write it who is at the top of the tree."""
    return os.path.relpath(word, TREE) if os.path.isabs(word) else str(word)


def commit(folder):
    """Of the tree the folder lies in, and whether the tree differs from it."""
    here = ["git", "-C", str(folder)]
    try:
        name = subprocess.run([*here, "rev-parse", "--short=12", "HEAD"], capture_output=True,
                              text=True, check=True).stdout.strip()
        changed = subprocess.run([*here, "status", "--porcelain"], capture_output=True, text=True,
                                 check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return NO_COMMIT
    return f"{name}, with local changes" if changed else name


class Others:
    """Watches how much of the cores other programs take from now on."""

    # A compiler in the background leaves one core of two, and then nobody contends for a mutex.
    TOO_MUCH = 0.03

    def __init__(self):
        self._start = self._round = _now()
        self._most = 0.0

    def end_round(self):
        self._most = max(self._most, _share(self._round))
        self._round = _now()

    def sentence(self):
        share = _share(self._start)
        said = f"took {share:.0%} of the cores meanwhile, and at most {self._most:.0%} in a round"
        return said if share <= self.TOO_MUCH else f"{said}: DISTURBED, not to be quoted"


def _now():
    return time.monotonic(), _busy() - _ours()


def _share(since):
    """Of the cores, what others took."""
    (start, at_start), (now, until_now) = since, _now()
    return max(0.0, (until_now - at_start) / ((now - start) * os.cpu_count()))


def _busy():
    """Seconds that the cores have worked for anybody, or were withheld by a hypervisor."""
    with open("/proc/stat", encoding="utf-8") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _ours():
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
