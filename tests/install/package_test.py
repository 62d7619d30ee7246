"""The Debian package: installed by dpkg into a private root, it serves, and a purge removes all files.

Usage: package_test.py WEIR SOURCE SCRATCH. As root the package is really installed, with its scripts;
otherwise it is only unpacked, and tests of dpkg are skipped.
"""

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

SCRATCH = Path(sys.argv.pop(3)).absolute()
SOURCE = Path(sys.argv.pop(2)).absolute()
WEIR = sys.argv.pop(1)
sys.path.insert(0, str(SOURCE / "tests" / "integration"))

from daemon import Daemon, under_sanitizer  # noqa: E402

IS_ROOT = os.geteuid() == 0
CONFIG = "etc/weir/weir.yaml"
UNIT = "lib/systemd/system/weir.service"
FILES = {
    CONFIG, UNIT,
    "usr/bin/weir",
    "usr/lib/sysusers.d/weir.conf",
    "usr/share/bash-completion/completions/weir",
    "usr/share/fish/vendor_completions.d/weir.fish",
    "usr/share/zsh/vendor-completions/_weir",
    "usr/share/man/man1/weir.1.gz",
    "usr/share/man/man5/weir.yaml.5.gz",
    "usr/share/weir/grafana/weir.json",
    "usr/share/weir/prometheus/weir.rules.yaml",
    "usr/share/doc/weir/README.md",
    "usr/share/doc/weir/changelog.gz",
    "usr/share/doc/weir/copyright",
    "usr/share/doc/weir/examples/weir.yaml",
}
PAGES = {f"usr/share/doc/weir/{path.relative_to(SOURCE)}"
         for kind in ("*.md", "*.svg") for path in (SOURCE / "docs").rglob(kind)}
# The maximum exposure by systemd-analyze, from 0 (best) to 100.
MOST_EXPOSED = 15


def run(*command, **more):
    """Returns the output of the command; a failure is an exception that contains it."""
    done = subprocess.run([str(word) for word in command], text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        raise AssertionError(f"$ {shlex.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def make_packages(name):
    """The package, and the package of its debug symbols."""
    folder = SCRATCH / name
    folder.mkdir(parents=True)
    return [Path(line) for line in run(SOURCE / "tools" / "make-deb", WEIR, folder).splitlines()]


class Root:
    """A private root that contains only the files that dpkg needs."""

    def __init__(self, name):
        self.path = SCRATCH / name
        for folder in ("etc", "var/lib/dpkg/info", "var/lib/dpkg/updates"):
            (self.path / folder).mkdir(parents=True)
        (self.path / "var/lib/dpkg/status").touch()

    # (The dependencies are installed on this machine, not in the root. All files are installed, even where
    # dpkg is set up to leave out documentation, as in small images.)
    def dpkg(self, *words):
        return run("dpkg", f"--root={self.path}", f"--log={self.path}/dpkg.log", "--force-depends",
                   "--force-script-chrootless", "--path-include=/*", *words)

    def install(self, package):
        if IS_ROOT:
            return self.dpkg("--install", package)
        return run("dpkg-deb", "--extract", package, self.path)

    def files(self):
        """All files in the root, without those of dpkg and the scripts."""
        found = {str(path.relative_to(self.path)) for path in self.path.rglob("*")
                 if path.is_file() and not path.is_symlink()}
        kept = re.compile(r"var/|etc/(passwd|group|shadow|gshadow)-?$|etc/\.pwd\.lock$|dpkg\.log$")
        return {path for path in found if not kept.match(path)}


def setUpModule():
    global PACKAGE, SYMBOLS, ROOT
    shutil.rmtree(SCRATCH, ignore_errors=True)
    PACKAGE, SYMBOLS = make_packages("package")
    ROOT = Root("root")
    ROOT.install(PACKAGE)


def control(field):
    return run("dpkg-deb", "--field", PACKAGE, field).strip()


def control_file(name):
    return run("dpkg-deb", "--info", PACKAGE, name)


class PackageTest(unittest.TestCase):
    def test_the_package_has_every_file_in_its_place_and_no_other(self):
        self.assertEqual(ROOT.files(), FILES | PAGES)

    def test_the_package_has_its_name_and_version_in_the_control_file(self):
        self.assertEqual(control("Package"), "weir")
        self.assertEqual(control("Version"), run(WEIR, "--version").split()[1])
        self.assertEqual(control("Architecture"), run("dpkg", "--print-architecture").strip())

    def test_the_package_depends_on_the_libraries_of_the_command(self):
        depends = control("Depends")
        for library in ("libc6", "libstdc++6", "libyaml-cpp0.7"):
            self.assertRegex(depends, rf"(^|, ){re.escape(library)} \(>= ")
        self.assertRegex(depends, r"(^|, )tzdata(,|$)")
        self.assertNotIn("-dev", depends)

    def test_the_configuration_is_a_conffile(self):
        self.assertEqual(control_file("conffiles"), f"/{CONFIG}\n")

    def test_every_other_file_has_a_correct_checksum(self):
        sums = control_file("md5sums")
        listed = {line.split("  ", 1)[1] for line in sums.splitlines()}
        self.assertEqual(listed, (FILES | PAGES) - {CONFIG})
        run("md5sum", "--check", "--quiet", "--strict", "-", input=sums, cwd=ROOT.path)

    def test_owners_and_modes_are_those_of_a_system_package(self):
        for line in run("dpkg-deb", "--contents", PACKAGE).splitlines():
            mode, owner, _, _, _, name = line.split(None, 5)
            self.assertEqual(owner, "root/root", name)
            expected = {"./usr/bin/weir": "-rwxr-xr-x", "./" + CONFIG: "-rw-r-----"}
            usual = "drwxr-xr-x" if name.endswith("/") else "-rw-r--r--"
            self.assertEqual(mode, expected.get(name, usual), name)

    def test_the_same_input_makes_the_same_packages(self):
        again = [package.read_bytes() for package in make_packages("again")]
        self.assertEqual(again, [PACKAGE.read_bytes(), SYMBOLS.read_bytes()])

    def test_the_command_is_stripped_and_its_symbols_are_apart(self):
        command = ROOT.path / "usr/bin/weir"
        self.assertNotIn(".debug_info", run("readelf", "--section-headers", "--wide", command))
        build_id = re.search(r"Build ID: (\w+)", run("readelf", "--notes", command)).group(1)
        unpacked = SCRATCH / "symbols"
        run("dpkg-deb", "--extract", SYMBOLS, unpacked)
        debug = unpacked / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
        self.assertIn(".debug_line", run("readelf", "--section-headers", "--wide", debug))
        self.assertIn(build_id, run("readelf", "--notes", debug))
        self.assertEqual(run("dpkg-deb", "--field", SYMBOLS, "Depends").strip(), f"weir (= {control('Version')})")

    def test_no_packaged_file_contains_the_build_path(self):
        for path in sorted(FILES - {"usr/bin/weir"}):
            self.assertNotIn(os.fsencode(SOURCE), (ROOT.path / path).read_bytes(), path)

    def test_manual_pages_render_without_warnings(self):
        for page in sorted(path for path in FILES if "/man/" in path):
            done = subprocess.run(["man", "--warnings", "-l", str(ROOT.path / page)], text=True,
                                  capture_output=True, timeout=60, env={**os.environ, "MANPAGER": "cat"})
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_has_no_errors(self):
        run("lintian", "--fail-on", "error", "--suppress-tags", "bad-distribution-in-changes-file",
            PACKAGE)


class ServingTest(unittest.TestCase):
    def setUp(self):
        self.weir = str(ROOT.path / "usr/bin/weir")

    def test_the_packaged_configuration_is_valid(self):
        self.assertIn("1 policy, 1 limit\n", run(self.weir, "validate", ROOT.path / CONFIG))

    # On free ports, with the state in the same root.
    def test_the_installed_daemon_serves_the_installed_client(self):
        (ROOT.path / "var/lib/weir").mkdir(parents=True, exist_ok=True)
        text = (ROOT.path / CONFIG).read_text(encoding="utf-8")
        for installed, here in (("127.0.0.1:7379", "127.0.0.1:0"), ("127.0.0.1:7380", "127.0.0.1:0"),
                                ("/var/lib/weir/state", f"{ROOT.path}/var/lib/weir/state")):
            self.assertIn(installed, text)
            text = text.replace(installed, here)
        folder = SCRATCH / "serving"
        folder.mkdir()
        daemon = Daemon(self.weir, folder=folder)
        daemon.config.write_text(text, encoding="utf-8")
        with daemon:
            url = f"http://127.0.0.1:{daemon.http_port}"
            said = run(self.weir, "take", "default", "somebody", "--url", url)
            self.assertIn("allowed      yes", said)
            self.assertIn("limit        200", said)
            self.assertEqual(daemon.stop(), 0)
        self.assertTrue((ROOT.path / "var/lib/weir/state").exists())


@unittest.skipUnless(IS_ROOT, "only root can install packages")
class DpkgTest(unittest.TestCase):
    def test_dpkg_verifies_the_installed_package(self):
        query = run("dpkg-query", f"--admindir={ROOT.path}/var/lib/dpkg", "--show",
                    "--showformat=${db:Status-Status} ${Conffiles}", "weir")
        self.assertTrue(query.startswith("installed"), query)
        self.assertIn(f"/{CONFIG} ", query)
        self.assertEqual(ROOT.dpkg("--verify", "weir"), "")

    def test_the_configuration_is_readable_only_by_root_and_the_group_of_the_daemon(self):
        users = dict(line.split(":", 1) for line in
                     (ROOT.path / "etc/passwd").read_text(encoding="utf-8").splitlines())
        uid, gid = users["weir"].split(":")[1:3]
        self.assertGreater(int(uid), 0)
        config = (ROOT.path / CONFIG).stat()
        self.assertEqual((config.st_uid, config.st_gid), (0, int(gid)))
        self.assertEqual(stat.S_IMODE(config.st_mode), 0o640)

    def test_the_service_is_enabled_at_boot(self):
        wanted = ROOT.path / "etc/systemd/system/multi-user.target.wants/weir.service"
        self.assertTrue(wanted.is_symlink())

    def test_an_upgrade_keeps_changed_files_and_a_purge_removes_all_files(self):
        root = Root("upgrade")
        root.install(PACKAGE)
        config = root.path / CONFIG
        config.write_text("policies: { mine: { limits: [ 1/s ] } }\n", encoding="utf-8")
        config.chmod(0o600)
        state = root.path / "var/lib/weir/state"
        state.parent.mkdir()
        state.touch()
        root.install(PACKAGE)
        self.assertIn("mine", config.read_text(encoding="utf-8"))
        self.assertEqual(stat.S_IMODE(config.stat().st_mode), 0o600)
        root.dpkg("--remove", "weir")
        self.assertFalse((root.path / "usr/bin/weir").exists())
        self.assertTrue(config.exists() and state.exists())
        root.dpkg("--purge", "weir")
        self.assertEqual(root.files(), set())
        self.assertFalse(state.exists())


def calls_of(group):
    """The system calls in a group of systemd, and in its inner groups."""
    lines = run("systemd-analyze", "syscall-filter", group).splitlines()[1:]
    names = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    inner = [calls_of(name) for name in names if name.startswith("@")]
    return set(names).union(*inner)


def calls_of_a_daemons_life():
    """The system calls from start to end, with takes, a put policy, a reload and a supervisor."""
    folder = SCRATCH / "traced"
    folder.mkdir()
    traced = folder / "weir"
    trace = folder / "trace"
    traced.write_text(f'#!/bin/sh\nexec strace -D -f -o "{trace}" "{WEIR}" "$@"\n', encoding="utf-8")
    traced.chmod(0o755)
    with mock.patch.dict(os.environ, {"NOTIFY_SOCKET": "@nobody-listens"}):
        with Daemon(str(traced), folder=folder, extra=f"state: {folder}/state") as daemon:
            resp = daemon.resp()
            resp("WEIR.TAKE", "llm", "k")
            resp.close()
            daemon.http("GET", "/metrics")
            daemon.http("PUT", "/v1/policies/put", {"limits": ["1/s"]})
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for_log("read again")
            pid = daemon.process.pid
            daemon.stop()
    # (strace writes on for a moment.)
    text = ""
    for _ in range(3000):
        text = trace.read_text(encoding="utf-8", errors="replace")
        if re.search(rf"^{pid} +\+\+\+ exited", text, re.MULTILINE):
            break
        time.sleep(0.01)
    return set(re.findall(r"^\d+ +(\w+)\(", text, re.MULTILINE))


class UnitTest(unittest.TestCase):
    def lines(self):
        return (ROOT.path / UNIT).read_text(encoding="utf-8").splitlines()

    def test_systemd_verifies_the_unit_without_complaints(self):
        said = run("systemd-analyze", "verify", "--man=no", f"--root={self.beside_a_system()}", "weir.service")
        self.assertEqual(said, "")

    def beside_a_system(self):
        """A root with the unit and the files of systemd."""
        root = SCRATCH / "system"
        if not root.exists():
            units = root / "lib/systemd/system"
            shutil.copytree("/lib/systemd/system", units, symlinks=True)
            shutil.copy(ROOT.path / UNIT, units)
            for program in (ROOT.path / "usr/bin/weir", Path("/bin/kill")):
                for folder in ("usr/bin", "bin"):
                    (root / folder).mkdir(parents=True, exist_ok=True)
                    shutil.copy(program, root / folder)
        return root

    def test_the_unit_has_a_low_exposure_score(self):
        run("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}",
            f"--root={self.beside_a_system()}", "weir.service")

    def test_the_unit_uses_notify_reload(self):
        for line in ("Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "Restart=on-failure",
                     "StateDirectory=weir", "NoNewPrivileges=yes", "ProtectSystem=strict"):
            self.assertIn(line, self.lines())

    # A forbidden system call would fail only in the field, when it is made.
    @unittest.skipIf(under_sanitizer(), "a sanitizer has calls of its own")
    def test_the_unit_allows_every_system_call_of_the_daemon(self):
        self.assertIn("SystemCallFilter=@system-service", self.lines())
        self.assertIn("SystemCallFilter=~@privileged", self.lines())
        allowed = calls_of("@system-service") | calls_of("@default")
        used = calls_of_a_daemons_life()
        self.assertLess({"epoll_wait", "accept4", "msync", "sendto"}, used)
        self.assertEqual(used - (allowed - calls_of("@privileged")), set())

    # The boot id tells whether the machine was restarted in between.
    def test_the_unit_lets_the_daemon_read_the_boot_id(self):
        self.assertFalse([line for line in self.lines() if line.startswith("ProcSubset")])


if __name__ == "__main__":
    unittest.main()
