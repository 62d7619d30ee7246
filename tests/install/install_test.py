"""Foreign projects can use the installed libraries: find, compile, link, run, and move them.

Usage: install_test.py --build BUILD --source SOURCE --compiler CXX [--sanitize LIST] [unittest arguments]

A build with sanitizers can only be linked by its own compiler with the same flags, and links more libraries;
checks that depend on that are left out.
"""

import argparse
import multiprocessing.pool
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

parser = argparse.ArgumentParser()
for option in ("--build", "--source", "--compiler"):
    parser.add_argument(option, required=True)
parser.add_argument("--sanitize", default="")
ARGS, UNITTEST_ARGS = parser.parse_known_args()

HERE = os.path.dirname(os.path.abspath(__file__))
SCRATCH = os.path.join(ARGS.build, "tests", "install", "scratch")
PREFIX = os.path.join(SCRATCH, "prefix")
LIBRARIES = ("limiter", "engine", "redis")
COMPILERS = [ARGS.compiler] if ARGS.sanitize else ["g++", "clang++-14"]
SANITIZE = [f"-fsanitize={ARGS.sanitize}"] if ARGS.sanitize else []
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]

# The libraries that every program links.
SYSTEM = {"linux-vdso", "ld-linux", "libstdc++", "libgcc_s", "libc", "libm", "libpthread"}


def run(*command, cwd=None, **environment):
    """Returns the output of the command; a failure is an exception that contains it."""
    done = subprocess.run(command, cwd=cwd, text=True, timeout=600, env={**os.environ, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"$ {shlex.join(command)}\n{done.stdout}")
    return done.stdout


def fresh(name):
    path = os.path.join(SCRATCH, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def expected(library):
    with open(os.path.join(HERE, library, "expected.txt"), encoding="utf-8") as text:
        return text.read()


def linked_by(program):
    """The libraries that a program loads, without their versions."""
    names = re.findall(r"^\s*(?:/\S*/)?([^\s/]+?)(?:-x86-64|-aarch64)?\.so", run("ldd", program), re.M)
    return set(names)


def headers():
    return sorted(os.listdir(os.path.join(PREFIX, "include", "weir")))


def setUpModule():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    run("cmake", "--install", ARGS.build, "--prefix", PREFIX)


class Installed(unittest.TestCase):
    def test_every_file_is_installed_in_its_place(self):
        self.assertEqual(headers(), sorted(os.listdir(os.path.join(ARGS.source, "include", "weir"))))
        self.assertRegex(run(os.path.join(PREFIX, "bin", "weir"), "--version"), r"^weir \d")
        for path in ("man/man1/weir.1", "man/man5/weir.yaml.5", "bash-completion/completions/weir",
                     "zsh/site-functions/_weir", "fish/vendor_completions.d/weir.fish"):
            self.assertTrue(os.path.isfile(os.path.join(PREFIX, "share", path)), path)

    # A path of the build machine would be wrong on any other.
    def test_no_installed_file_contains_the_build_path(self):
        for folder, _, files in os.walk(PREFIX):
            for name in files:
                if not name.endswith((".cmake", ".pc", ".h")):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                for path in (ARGS.source, ARGS.build, PREFIX):
                    self.assertNotIn(path, text, name)


class WithCMake(unittest.TestCase):
    def build(self, library, *options, name=None, prefix=PREFIX):
        """Builds a foreign project from scratch and returns its folder."""
        folder = fresh(name or f"cmake-{library}")
        if SANITIZE:
            options += (f"-DCMAKE_CXX_COMPILER={ARGS.compiler}", f"-DCMAKE_CXX_FLAGS={SANITIZE[0]}")
        run("cmake", "-S", os.path.join(HERE, library), "-B", folder,
            f"-DCMAKE_PREFIX_PATH={prefix}", *options)
        run("cmake", "--build", folder)
        return folder

    def test_limiter_builds_without_the_dependencies_of_the_engine(self):
        without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("fmt", "yaml-cpp")]
        program = os.path.join(self.build("limiter", *without), "stranger")
        self.assertEqual(run(program), expected("limiter"))
        if not SANITIZE:
            self.assertLessEqual(linked_by(program), SYSTEM)

    def test_a_project_with_the_engine_builds_and_runs(self):
        program = os.path.join(self.build("engine"), "stranger")
        self.assertEqual(run(program), expected("engine"))

    def test_a_project_with_redis_builds_and_runs(self):
        program = os.path.join(self.build("redis"), "stranger")
        self.assertEqual(run(program), expected("redis"))

    # A project that does not request redis does not need its dependencies.
    def test_find_package_names_the_missing_dependency_of_redis(self):
        without = "set(CMAKE_DISABLE_FIND_PACKAGE_OpenSSL ON)\n"
        self.assertEqual(self.find("REQUIRED", without), ["limiter", "engine"])
        with self.assertRaisesRegex(RuntimeError, r"weir::redis\s+needs\s+OpenSSL\s+\(Debian:\s+libssl-dev\)"):
            self.find("REQUIRED COMPONENTS redis", without)

    def test_find_package_names_the_missing_dependency_of_the_engine(self):
        with self.assertRaisesRegex(RuntimeError, r"weir::engine\s+needs\s+fmt\s+\(Debian:\s+libfmt-dev\)"):
            self.build("engine", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON", name="cmake-without-fmt")

    def find(self, arguments, before=""):
        folder = fresh("cmake-find")
        with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.16)\nproject(finder LANGUAGES CXX)\n"
                       f"{before}find_package(weir {arguments})\n"
                       "foreach(name limiter engine redis)\n  if(TARGET weir::${name})\n"
                       "    message(STATUS \"there is ${name}\")\n  endif()\nendforeach()\n")
        output = run("cmake", "-S", folder, "-B", os.path.join(folder, "build"),
                     f"-DCMAKE_PREFIX_PATH={PREFIX}")
        return re.findall(r"there is (\w+)", output)

    def test_find_package_finds_the_requested_components(self):
        self.assertEqual(self.find("REQUIRED"), ["limiter", "engine", "redis"])
        self.assertEqual(self.find("REQUIRED COMPONENTS limiter"), ["limiter"])
        self.assertEqual(self.find("REQUIRED COMPONENTS engine"), ["limiter", "engine"])
        self.assertEqual(self.find("REQUIRED COMPONENTS redis"), ["limiter", "engine", "redis"])
        self.assertEqual(self.find("QUIET OPTIONAL_COMPONENTS gateway"), ["limiter"])

    def test_find_package_refuses_unknown_components_and_versions(self):
        with self.assertRaisesRegex(RuntimeError, 'no component "limter": there are limiter, engine and redis'):
            self.find("REQUIRED COMPONENTS limter")
        with self.assertRaisesRegex(RuntimeError, "version"):
            self.find("9.0 REQUIRED")


class WithPkgConfig(unittest.TestCase):
    def flags(self, library, *options, prefix=PREFIX):
        path = os.path.join(prefix, "lib", "pkgconfig")
        return shlex.split(run("pkg-config", *options, f"weir-{library}", PKG_CONFIG_PATH=path))

    def build(self, compiler, library, prefix=PREFIX):
        folder = fresh(f"pkg-config-{library}-{os.path.basename(compiler)}")
        program = os.path.join(folder, "stranger")
        run(compiler, *STRICT, *SANITIZE, os.path.join(HERE, library, "main.cc"), "-o", program,
            *self.flags(library, "--cflags", "--libs", prefix=prefix))
        return program

    def test_every_compiler_builds_with_every_library(self):
        for compiler in COMPILERS:
            for library in LIBRARIES:
                with self.subTest(compiler=compiler, library=library):
                    program = self.build(compiler, library)
                    self.assertEqual(run(program), expected(library))
                    if library == "limiter" and not SANITIZE:
                        self.assertLessEqual(linked_by(program), SYSTEM)

    def test_the_limiter_names_no_third_party_library(self):
        for options in (["--libs"], ["--libs", "--static"]):
            flags = self.flags("limiter", *options)
            self.assertEqual([f for f in flags if not f.startswith("-L")], ["-lweir_limiter", "-pthread"])

    # With --static the libraries must be in the right order.
    def test_the_engine_names_all_libraries_that_it_needs(self):
        for options in (["--libs"], ["--libs", "--static"]):
            flags = self.flags("engine", *options)
            self.assertLess(flags.index("-lweir_engine"), flags.index("-lweir_limiter"))
            self.assertLessEqual({"-lfmt", "-lyaml-cpp", "-lcctz"}, set(flags))


class MovedElsewhere(unittest.TestCase):
    def test_a_moved_prefix_still_works(self):
        moved = os.path.join(SCRATCH, "moved here")
        os.rename(PREFIX, moved)
        self.addCleanup(os.rename, moved, PREFIX)
        folder = WithCMake().build("engine", name="cmake-moved", prefix=moved)
        self.assertEqual(run(os.path.join(folder, "stranger")), expected("engine"))
        program = WithPkgConfig().build(COMPILERS[0], "engine", prefix=moved)
        self.assertEqual(run(program), expected("engine"))


class Headers(unittest.TestCase):
    def compile(self, compiler, header):
        """The error of a program that includes only this header, twice; None if it compiles."""
        source = os.path.join(SCRATCH, f"{header}-{os.path.basename(compiler)}.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(f"#include <weir/{header}>\n#include <weir/{header}>\nint main() {{}}\n")
        try:
            included = run(compiler, *STRICT, "-fsyntax-only", "-H", "-I",
                           os.path.join(PREFIX, "include"), source)
        except RuntimeError as error:
            return str(error)
        ours = re.findall(r"^\.+ (.*/weir/.*)$", included, re.M)
        strays = [path for path in ours if not path.startswith(os.path.join(PREFIX, "include", "weir"))]
        return f"{header} includes {strays}" if strays else None

    def test_each_header_compiles_alone(self):
        work = [(compiler, header) for compiler in COMPILERS for header in headers()]
        with multiprocessing.pool.ThreadPool(2) as pool:
            problems = [problem for problem in pool.starmap(self.compile, work) if problem]
        self.assertEqual(problems, [])

    # Headers of the standard library have no suffix; all others have one.
    def test_headers_include_only_the_standard_library_and_each_other(self):
        for header in headers():
            with open(os.path.join(PREFIX, "include", "weir", header), encoding="utf-8") as text:
                for include in re.findall(r"^\s*#\s*include\s+(.*)$", text.read(), re.M):
                    self.assertRegex(include, r'^(<[a-z_]+>|"weir/[a-z_]+\.h")$', header)


class Documentation(unittest.TestCase):
    # The commands of docs/library.md that compile a program, exactly as documented.
    def test_documented_commands_compile_the_examples(self):
        with open(os.path.join(ARGS.source, "docs", "library.md"), encoding="utf-8") as page:
            commands = re.findall(r"^\$ (g\+\+ .*)$", page.read(), re.M)
        self.assertGreater(len(commands), 1)
        folder = fresh("documented")
        shutil.copytree(os.path.join(ARGS.source, "examples"), folder, dirs_exist_ok=True)
        for command in commands:
            if SANITIZE:
                command = command.replace("g++", shlex.join([ARGS.compiler, *SANITIZE]), 1)
            run("sh", "-c", command, cwd=folder,
                PKG_CONFIG_PATH=os.path.join(PREFIX, "lib", "pkgconfig"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *UNITTEST_ARGS])
