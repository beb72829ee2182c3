"""What a build folder says about itself."""

import json
import pathlib
import subprocess

from . import machine


def describe(build, executables):
    """Compiler, build type, commit and contenders left out."""
    said = [exe.context(1) for exe in executables]
    together = lambda name: "; ".join(dict.fromkeys(s[name] for s in said if s.get(name)))
    return {
        "compiler": together("compiler"),
        "build": ", ".join(part for part in (together("build"), _options(build)) if part),
        "commit": machine.commit(_source(build)) + _doubt(build, executables),
        "left out": together("left_out"),
    }


def step(executables):
    """How many ns a step of work takes: one answer for all that are compared, or None if one of them is of a build
    that times it for itself. The least, for nothing makes a step shorter."""
    said = [exe.context(1).get("step_ns") for exe in executables]
    return min(said, key=float) if all(said) else None


def sentence(build, executables):
    said = describe(build, executables)
    return f"{machine.from_the_tree(build)}: {said['compiler']}, {said['build']}, commit {said['commit']}"


def _read(build, name):
    """One of the files in which Meson tells of a build, or None."""
    try:
        return json.loads((pathlib.Path(build) / "meson-info" / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _settings(build):
    return {option["name"]: option["value"] for option in _read(build, "intro-buildoptions.json") or ()}


def _options(build):
    known = _settings(build)
    return " ".join(part for part in (
        f"-O{known['optimization']}" if "optimization" in known else "",
        "with LTO" if known.get("b_lto") else "",
        *known.get("cpp_args", ())) if part)


def compiler(build):
    """The command that compiles it, or nothing if the build does not say."""
    for target in _read(build, "intro-targets.json") or ():
        for sources in target["target_sources"]:
            if sources.get("language") == "cpp":
                return sources["compiler"][-1]  # in front there may be ccache
    return ""


def options(build):
    """What makes other executables than without, as tools/bench is given it."""
    said = _settings(build)
    return [f"-D{name}={_as_given(said[name])}" for name, usual in _USUAL.items() if said.get(name, usual) != usual]


# The options of a build by tools/bench that is given none.
_USUAL = {"all_rings": True, "ring": "ticket", "optimization": "3", "b_lto": False, "cpp_args": []}


def _as_given(value):
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, list) else value  # as Meson reads a list


def _source(build):
    """The tree it was built from; this one if it does not say."""
    said = _read(build, "meson-info.json") or {}
    return said.get("directories", {}).get("source") or pathlib.Path(__file__).resolve().parent


def _doubt(build, executables):
    """Whether the tree has changed since the executables were built."""
    names = [f"bench/{exe.name}" for exe in executables]
    try:
        dry_run = subprocess.run(["ninja", "-C", str(build), "-n", *names], capture_output=True,
                                 text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ", and it is not known whether the executables are older"
    return "" if "no work to do" in dry_run.stdout else ", but the executables are older than the tree"
