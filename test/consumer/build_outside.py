#!/usr/bin/env python3
"""Builds and runs main.cpp as a project outside this tree would, in one of the documented ways.

    pkg-config   installs the library somewhere else and compiles with what pkg-config says
    cmake        the same through a CMake project; skipped where CMake is not installed
    subproject   has a Meson project that finds the library under its subprojects/

Works in a directory of its own, which is gone afterwards. Ends with 77, which Meson shows as
skipped, where a way cannot be tried.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


def skip(sentence):
    print(sentence)
    sys.exit(SKIPPED)


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run([str(word) for word in command], check=True, **options)


def copy_project(way, work):
    project = work / "outside"
    shutil.copytree(HERE / way, project)
    shutil.copy(HERE / "main.cpp", project)
    return project


def install(build, work):
    """Installs under `work`, and points pkg-config and the loader there."""
    root = work / "root"
    run("meson", "install", "-C", build, "--quiet", "--destdir", root)
    description = next(root.rglob("turnstile.pc"))
    os.environ["PKG_CONFIG_PATH"] = str(description.parent)
    os.environ["PKG_CONFIG_SYSROOT_DIR"] = str(root)  # prefixes the paths, which say /usr/local
    os.environ["LD_LIBRARY_PATH"] = str(description.parent.parent)


def try_pkg_config(args, work):
    install(args.build, work)
    told = run("pkg-config", "--cflags", "--libs", "turnstile", capture_output=True, text=True)
    program = work / "outside"
    # Other projects take warnings as seriously as this one does, and find its headers with -I.
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run(*args.compiler, "-std=c++20", *strict, HERE / "main.cpp", *told.stdout.split(),
        "-o", program)
    return program


def try_cmake(args, work):
    if not shutil.which("cmake"):
        skip("CMake is not installed, so nothing is known about a CMake project.")
    install(args.build, work)
    project = copy_project("cmake", work)
    out = work / "out"
    run("cmake", "-S", project, "-B", out, "-G", "Ninja",
        "-DCMAKE_CXX_COMPILER=" + ";".join(args.compiler))
    run("cmake", "--build", out)
    return out / "outside"


def try_subproject(args, work):
    project = copy_project("subproject", work)
    (project / "subprojects").mkdir()
    (project / "subprojects" / "turnstile").symlink_to(args.source)
    out = work / "out"
    os.environ["CXX"] = " ".join(args.compiler)
    # A library that happens to be installed here is not the one to try. Plain builds fastest.
    run("meson", "setup", "--force-fallback-for=turnstile", "--buildtype=plain", out, project)
    run("ninja", "-C", out, "outside")
    return out / "outside"


WAYS = {"pkg-config": try_pkg_config, "cmake": try_cmake, "subproject": try_subproject}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--sanitize", default="none", help="what the library was built with")
    parser.add_argument("compiler", nargs="+", help="the command, after --")
    return parser.parse_args()


def main():
    args = arguments()
    if args.sanitize != "none":
        skip("A library with sanitizers cannot be linked by a project that knows nothing of them.")
    with tempfile.TemporaryDirectory() as work:
        try:
            run(WAYS[args.way](args, pathlib.Path(work)))
        except subprocess.CalledProcessError as error:
            sys.exit(f"{error}\n{error.stderr or ''}")


if __name__ == "__main__":
    main()
