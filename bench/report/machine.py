"""What the numbers were measured on: the processor, the tree, and who else was using the cores."""

import os
import platform
import resource
import subprocess
import time


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
            for line in cpuinfo:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def summary():
    return (f"{processor()}, {len(os.sched_getaffinity(0))} cores, "
            f"{platform.system()} {platform.release()}")


def commit(folder):
    """Of the tree the folder lies in, and whether the tree differs from it."""
    here = ["git", "-C", str(folder)]
    try:
        name = subprocess.run([*here, "rev-parse", "--short=12", "HEAD"], capture_output=True,
                              text=True, check=True).stdout.strip()
        changed = subprocess.run([*here, "status", "--porcelain"], capture_output=True, text=True,
                                 check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name}, with local changes" if changed else name


class Others:
    """Watches how much of the cores other programs take from now on."""

    # A compiler in the background leaves one core of two, and then nobody contends for a mutex.
    TOO_MUCH = 0.03

    def __init__(self):
        self._start = time.monotonic()
        self._theirs_at_start = _busy() - _ours()

    def share(self):
        passed = (time.monotonic() - self._start) * os.cpu_count()
        return max(0.0, (_busy() - _ours() - self._theirs_at_start) / passed)

    def sentence(self):
        share = self.share()
        said = f"took {share:.0%} of the cores meanwhile"
        return said if share <= self.TOO_MUCH else f"{said}: DISTURBED, not to be quoted"


def _busy():
    """Seconds that the cores have worked for anybody, or were withheld by a hypervisor."""
    with open("/proc/stat", encoding="utf-8") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _ours():
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
