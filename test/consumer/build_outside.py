#!/usr/bin/env python3
"""Builds and runs a program as a project outside this tree would, in one of the documented ways.

    pkg-config   installs the library somewhere else and compiles with what pkg-config says
    cmake        the same through a CMake project; skipped where CMake is not installed
    subproject   has a Meson project that finds the library under its subprojects/, and shared; then pkg-config's
                 way with what that installs

The program is main.cpp, or asio.cpp or asio_alone.cpp, which are skipped where Boost.Asio or Asio is not
installed, or cuda.cpp, which comes with the folder of CUDA; a subproject builds that one beside main.cpp.
Works in a directory of its own, which is gone afterwards. Ends with 77, which Meson shows as skipped, where
a way cannot be tried.
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

# What has to compile where a program can be tried: not with an older one than asio.hpp needs. Asio 1.22 has no
# coroutines with clang.
ASIO = {
    "asio.cpp": ("Boost.Asio 1.81", "#include <boost/version.hpp>\n#include <boost/asio/awaitable.hpp>\n"
                 "static_assert(BOOST_VERSION >= 108100);\nusing found = boost::asio::awaitable<int>;\n"),
    "asio_alone.cpp": ("Asio 1.22", "#include <asio/version.hpp>\n#include <asio/awaitable.hpp>\n"
                       "static_assert(ASIO_VERSION >= 102200);\nusing found = asio::awaitable<int>;\n"),
}


def skip(sentence):
    print(sentence)
    sys.exit(SKIPPED)


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run([str(word) for word in command], check=True, **options)


def copy_project(args, work):
    project = work / "outside"
    shutil.copytree(HERE / args.way, project)
    shutil.copy(args.program, project / "main.cpp")
    shutil.copy(HERE / "cuda.cpp", project)
    return project


def package(args):
    return "turnstile-cuda" if args.program.name == "cuda.cpp" else "turnstile"


def require_asio(args):
    name, asks = ASIO[args.program.name]
    asked = [*args.compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
    done = subprocess.run(asked, input=asks, text=True, stderr=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        skip(f"{name} with coroutines is not installed, so nothing is known about a program on it.")


def install(args, work, build):
    """Installs under `work`, and points pkg-config and the loader there."""
    root = work / "root"
    run("meson", "install", "--no-rebuild", "-C", build, "--quiet", "--destdir", root)
    description = next(root.rglob("turnstile.pc"))
    os.environ["PKG_CONFIG_PATH"] = str(description.parent)
    os.environ["PKG_CONFIG_SYSROOT_DIR"] = str(root)  # prefixes the paths, which say /usr/local
    os.environ["LD_LIBRARY_PATH"] = str(description.parent.parent)
    if args.cuda:
        os.environ["LD_LIBRARY_PATH"] += ":" + args.cuda_libraries
        bring_cuda(pathlib.Path(args.cuda), root)


def bring_cuda(toolkit, root):
    """To where it is looked for now, with the prefix before its path."""
    there = root / toolkit.relative_to("/")
    there.parent.mkdir(parents=True, exist_ok=True)
    if not there.exists():
        there.symlink_to(toolkit)


def compile_with_pkg_config(args, work):
    told = run("pkg-config", "--cflags", "--libs", package(args), capture_output=True, text=True)
    program = work / "program"
    # Other projects take warnings as seriously as this one does, and find its headers with -I. Some
    # leave libraries out that they call nothing of.
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-Wl,--as-needed"]
    run(*args.compiler, "-std=c++20", "-O" + args.optimise, *strict, args.program, *told.stdout.split(),
        "-o", program)
    return program


def try_pkg_config(args, work):
    install(args, work, args.build)
    return [compile_with_pkg_config(args, work)]


def try_cmake(args, work):
    if not shutil.which("cmake"):
        skip("CMake is not installed, so nothing is known about a CMake project.")
    install(args, work, args.build)
    project = copy_project(args, work)
    out = work / "out"
    run("cmake", "-S", project, "-B", out, "-G", "Ninja",
        "-DCMAKE_CXX_COMPILER=" + ";".join(args.compiler), "-DPACKAGE=" + package(args))
    run("cmake", "--build", out)
    return [out / "outside"]


def try_subproject(args, work):
    project = copy_project(args, work)
    (project / "subprojects").mkdir()
    (project / "subprojects" / "turnstile").symlink_to(args.source)
    out = work / "out"
    os.environ["CXX"] = " ".join(args.compiler)
    # A library that happens to be installed here is not the one to try. Plain builds fastest; and this is the
    # one build of the library without precompiled headers, which hide what a file forgot to include. It is shared,
    # which a guest has to be told by name, by a program that hides what it defines.
    run("meson", "setup", "--force-fallback-for=turnstile", "--buildtype=plain", "-Db_pch=false",
        "-Dturnstile:default_library=shared", "-Dturnstile:all_rings=false",
        "-Dturnstile:cuda=" + ("enabled" if args.cuda else "disabled"), out, project)
    run("ninja", "-C", out)
    # And since it is there, the shared library is installed, too.
    install(args, work, out)
    next((work / "root").rglob("libturnstile.so"))
    programs = ["outside"] + (["outside_cuda"] if args.cuda else [])
    return [out / program for program in programs] + [compile_with_pkg_config(args, work)]


WAYS = {"pkg-config": try_pkg_config, "cmake": try_cmake, "subproject": try_subproject}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--sanitize", default="none", help="what the library was built with")
    parser.add_argument("--program", type=HERE.joinpath, default=HERE / "main.cpp")
    parser.add_argument("--optimise", default="0", help="what a compiler is called with by pkg-config's way")
    parser.add_argument("--cuda", default="", help="where CUDA is")
    parser.add_argument("--cuda-libraries", default="", help="where its libraries are")
    parser.add_argument("compiler", nargs="+", help="the command, after --")
    return parser.parse_args()


def main():
    args = arguments()
    if args.sanitize != "none":
        skip("A library with sanitizers cannot be linked by a project that knows nothing of them.")
    if args.program.name in ASIO:
        require_asio(args)
    with tempfile.TemporaryDirectory() as work:
        try:
            for program in WAYS[args.way](args, pathlib.Path(work)):
                run(program)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{error}\n{error.stderr or ''}")


if __name__ == "__main__":
    main()
