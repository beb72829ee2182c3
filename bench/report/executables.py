"""The benchmark executables of a build: which there are, what they say, and one round of one."""

import json
import pathlib
import subprocess
import tempfile

NAMES = ("bench_field", "bench_turnstile", "bench_turnstile_inbox", "bench_turnstile_cycle",
         "bench_variable", "bench_device", "bench_gpu", "bench_tasks")

# A round of one executable takes half a minute at most; a hang must not be waited for for ever.
LONGEST_ROUND_S = 600

LAST_LINES = 10


class Failed(Exception):
    """A sentence about an executable that did not do what it should."""


class Executable:
    def __init__(self, path):
        self.name = path.name
        self._path = path
        self.round_trips = []  # at the beginning of each round: ns that a line takes to another core and back

    def context(self, round_ms):
        """What the executable says about itself: compiler, build, contenders left out."""
        said = self._run(["--context", f"--round_ms={round_ms}"])
        return dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)

    def round(self, round_ms, only, step, shares):
        """Measures every case once, with work of steps that take so many ns, if that is said, and the clients' shares
        if asked to. Gives Google Benchmark's report, empty if no case matches."""
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "round.json"
            self._run([f"--round_ms={round_ms}", f"--benchmark_filter={only}",
                       f"--benchmark_out={out}", "--benchmark_out_format=json",
                       *([f"--step_ns={step}"] if step else []), *(["--shares"] if shares else [])])
            text = out.read_text(encoding="utf-8") if out.exists() else ""
        if not text:
            return []
        said = json.loads(text)
        self.round_trips += filter(None, [float(said.get("context", {}).get("line_round_trip_ns", 0))])
        return said["benchmarks"]

    def _run(self, arguments):
        try:
            run = subprocess.run([str(self._path), *arguments], capture_output=True, text=True,
                                 check=False, timeout=LONGEST_ROUND_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end within {LONGEST_ROUND_S} s") from None
        except OSError as error:
            raise Failed(f"{self.name} cannot be run: {error.strerror}") from None
        if run.returncode != 0:
            wrong = [line for line in (run.stdout + run.stderr).splitlines() if "ERROR" in line]
            last = run.stderr.splitlines()[-LAST_LINES:]  # an abort says why there
            raise Failed("\n".join([f"{self.name} ended with status {run.returncode}", *(wrong or last)]))
        return run.stdout


def find(build):
    """The executables of a build folder, and the names of those it does not have."""
    paths = [pathlib.Path(build) / "bench" / name for name in NAMES]
    found = [Executable(path) for path in paths if path.is_file()]
    return found, [path.name for path in paths if not path.is_file()]
