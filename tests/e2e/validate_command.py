"""`weir validate` as a user or a script calls it: output, errors, exit codes.

Usage: validate_command.py WEIR [unittest arguments]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

WEIR = os.path.abspath(sys.argv.pop(1))

GOOD = """\
listen: { http: 0.0.0.0:8080 }
memory: 128MiB
policies:
  api:
    limits: [ 100/s, 100000/day ]
    overrides: { alice: 200/s, "team-*": [ 500/s ] }
    schedule: [ { days: sat-sun, limits: [ 10/s ] } ]
  login: { limits: [ 5/min sliding ] }
"""


# A mistake of each kind. Before some of them are characters that take more bytes than columns, or
# more columns than bytes.
NASTY = """\
version: 2
listen: { resp: 7379, htpp: off, grpc: 127.0.0.1:99999 }
store: redis://a,b
store_timeout: 5 s
state:
state: x
polices: {}
policies:
  ünï: { limits: [ 5/sec ] }
  tab:\t{ limits: [\t5/sec ] }
  限制: { limits: [ 5/sec ] }
  a:
    limits: [ 0/s, 100, 5/s bursts 3 ]
    shadow: yes
  b:
    limits:
      - { limit: 5/s, scope: galaxy, by: [ a, a ] }
      -
    overrides: { a*b: 5/s }
    schedule: [ { days: mon-fry, hours: 9-5, limits: [] } ]
"""

NASTY_PROBLEMS = """\
1:10 ^2
2:17 ^7379
2:23 ^htpp
2:50 ^99999
3:17 ^,b
4:17 ^ s
5:1 ^state:
6:1 ^state: x
7:1 ^polices
9:24 ^sec
10:22 ^sec
11:25 ^sec
13:15 ^0/s
13:23 ^,
13:29 ^bursts
14:13 ^yes
17:30 ^galaxy
17:42 ^[ a, a ]
18:7 ^-
19:18 ^a*b
20:29 ^fry
20:41 ^9-5
20:54 ^[]
"""


class ValidateCommand(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as out:
            out.write(text if isinstance(text, bytes) else text.encode())
        return path

    def weir(self, *arguments):
        return subprocess.run([WEIR, "validate", *arguments], capture_output=True, text=True,
                              cwd=self.folder.name, timeout=120)

    def test_counts_policies_and_limits_of_good_files(self):
        self.file("weir.yaml", GOOD)
        self.file("small.yaml", "policies: { login: { limits: [ 5/min ] } }\n")
        self.file("none.yaml", "memory: 1GiB\n")
        run = self.weir("weir.yaml", "small.yaml", "none.yaml")
        self.assertEqual(run.stdout, "weir.yaml: 2 policies, 6 limits\n"
                                     "small.yaml: 1 policy, 1 limit\n"
                                     "none.yaml: 0 policies, 0 limits\n")
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_reports_every_mistake(self):
        self.file("weir.yaml", "stor: memory\npolicies:\n  login: { limits: [ 5/minute ] }\n")
        self.file("good.yaml", GOOD)
        run = self.weir("weir.yaml", "good.yaml")
        self.assertEqual(run.stderr, """\
weir.yaml:1:1: a policy file has no field "stor" (did you mean "store"?)
  stor: memory
  ^
weir.yaml:3:24: unknown unit "minute": did you mean "5/min"?
    login: { limits: [ 5/minute ] }
                         ^
""")
        self.assertEqual((run.returncode, run.stdout), (1, "good.yaml: 2 policies, 6 limits\n"))

    def test_points_at_the_first_character_of_every_mistake(self):
        self.file("weir.yaml", NASTY)
        lines = NASTY.encode().splitlines()
        problems = json.loads(self.weir("weir.yaml", "--json").stdout)["files"][0]["problems"]
        expected = [line.split(" ^") for line in NASTY_PROBLEMS.splitlines()]
        self.assertEqual([f"{p['line']}:{p['column']}" for p in problems],
                         [place for place, _ in expected])
        for problem, (_, text) in zip(problems, expected):
            behind = lines[problem["line"] - 1][problem["column"] - 1:].decode()
            self.assertTrue(behind.startswith(text), (problem, behind))

    def test_a_few_lines_of_aliases_do_not_become_millions_of_limits(self):
        text = f"x-l: &l [{'1/s,' * 16}]\nx-o: &o {{ {', '.join(f'k{i}: *l' for i in range(300))} }}\n"
        text += "policies:\n" + "".join(f"  p{i}: {{ limits: *l, overrides: *o }}\n" for i in range(300))
        self.file("weir.yaml", text)
        run = self.weir("weir.yaml")
        self.assertEqual(run.returncode, 1)
        self.assertIn("the file has more than 500000 values", run.stderr)

    def test_a_grpc_listener_causes_no_warning(self):
        self.file("weir.yaml", "listen: { grpc: 127.0.0.1:7381 }\n" + GOOD.partition("\n")[2])
        run = self.weir("weir.yaml")
        self.assertEqual((run.returncode, run.stdout, run.stderr),
                         (0, "weir.yaml: 2 policies, 6 limits\n", ""))

    def test_warns_of_a_setting_without_effect(self):
        self.file("weir.yaml", "compat: envoyproxy\npolicies: { a: { limits: [ 1/s ] } }\n")
        run = self.weir("weir.yaml")
        self.assertEqual(run.returncode, 0)
        self.assertIn('weir.yaml:1:9: warning: "compat" has no effect without envoy_ratelimit', run.stderr)

    def test_a_file_with_only_a_gateway_section_is_valid(self):
        self.file("weir.yaml", "gateway:\n  routes:\n    - upstream: http://127.0.0.1:9000\n"
                               "      limits: [ 50/s burst 100, 20 concurrent ]\n      key: ip\n")
        run = self.weir("weir.yaml")
        self.assertEqual((run.returncode, run.stdout, run.stderr),
                         (0, "weir.yaml: 1 policy, 2 limits\n", ""))

    def test_reports_mistakes_of_a_gateway(self):
        self.file("weir.yaml", "gateway:\n  routes:\n    - upstream: 127.0.0.1:9000\n"
                               "      limits: [ 50/x ]\n      keey: ip\n")
        run = self.weir("weir.yaml")
        self.assertEqual(run.returncode, 1)
        for line in ('weir.yaml:3:17: "upstream" is http://host:port',
                     'weir.yaml:3:7: this route has limits but no key:',
                     'weir.yaml:4:20: unknown unit "x"',
                     'weir.yaml:5:7: a route has no field "keey" (did you mean "key"?)'):
            self.assertIn(line, run.stderr)

    def test_checks_the_rules_of_envoy_that_a_file_names(self):
        os.mkdir(os.path.join(self.folder.name, "rules"))
        self.file("weir.yaml", "envoy_ratelimit: rules\n")
        self.file("rules/a.yaml", "domain: a\ndescriptors: [ { key: k, rate_limit: { unit: day } } ]\n")
        run = self.weir("weir.yaml")
        self.assertEqual((run.returncode, run.stdout, run.stderr),
                         (0, "weir.yaml: 0 policies, 0 limits\nrules/a.yaml: 1 domain, 1 rate limit\n", ""))
        self.file("rules/b.yml", "domain: a\ndescriptors: [ 1 ]\n")
        self.file("rules/c.yml", "domain: c\nmore: 1\n")
        run = self.weir("weir.yaml")
        self.assertEqual(run.returncode, 1)
        self.assertIn("rules/b.yml:1:9: duplicate domain 'a' in config file\n", run.stderr)
        self.assertIn("rules/c.yml:2:1: config error, unknown key 'more'\n", run.stderr)
        report = json.loads(self.weir("--json", "weir.yaml").stdout)
        self.assertFalse(report["valid"])
        self.assertEqual([len(file["problems"]) for file in report["files"][0]["envoy_ratelimit"]], [0, 1, 1])
        os.mkdir(os.path.join(self.folder.name, "empty"))
        self.file("weir.yaml", "envoy_ratelimit: empty\n")
        run = self.weir("weir.yaml")
        self.assertEqual((run.returncode, run.stdout),
                         (0, "weir.yaml: 0 policies, 0 limits\nno file: 0 domains, 0 rate limits\n"))
        self.assertIn("weir.yaml:1:18: warning: empty has no *.yaml or *.yml file: no domain has rules\n", run.stderr)
        self.file("weir.yaml", "envoy_ratelimit: nowhere\n")
        run = self.weir("weir.yaml")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, "weir.yaml:1:18: cannot open nowhere: No such file or directory\n"
                                     "  envoy_ratelimit: nowhere\n  " + 17 * " " + "^\n")
        self.file("weir.yaml", "stor: 1\nenvoy_ratelimit:\n  path: nowhere\nmemor: 1\n")
        report = json.loads(self.weir("--json", "weir.yaml").stdout)
        self.assertEqual([(each["line"], each["column"]) for each in report["files"][0]["problems"]],
                         [(1, 1), (3, 9), (4, 1)])

    def test_json_lists_the_problems_of_each_file(self):
        self.file("good.yaml", "listen: { grpc: 127.0.0.1:7381 }\n" + GOOD.partition("\n")[2])
        self.file("bad.yaml", "stor: memory\n")
        run = self.weir("good.yaml", "bad.yaml", "--json")
        report = json.loads(run.stdout)
        self.assertEqual((run.returncode, run.stderr, report["valid"]), (1, "", False))
        good, bad = report["files"]
        self.assertEqual((good["file"], good["policies"], good["limits"], good["problems"]),
                         ("good.yaml", 2, 6, []))
        self.assertEqual(good["warnings"], [])
        self.assertEqual(bad["problems"], [{"line": 1, "column": 1, "message":
                         'a policy file has no field "stor" (did you mean "store"?)'}])
        self.assertTrue(json.loads(self.weir("good.yaml", "--json").stdout)["valid"])

    def test_usage_errors_exit_with_2(self):
        self.assertEqual(self.weir().returncode, 2)
        self.assertEqual(self.weir("--jsn", "a.yaml").returncode, 2)
        missing = self.weir("gone.yaml")
        self.assertEqual((missing.returncode, missing.stderr),
                         (2, "weir validate: cannot open gone.yaml: No such file or directory\n"))
        self.assertIn("Usage", self.weir("--help").stdout)

    def test_pipes_and_devices_are_refused_without_blocking(self):
        os.mkfifo(os.path.join(self.folder.name, "pipe"))
        for path in ("pipe", "/dev/zero", "/dev/tty"):
            run = self.weir(path)
            self.assertEqual(run.returncode, 2)
            self.assertIn("weir validate: cannot ", run.stderr)

    def test_reads_standard_input(self):
        for path in ("/dev/stdin", "/dev/fd/0"):
            run = subprocess.run([WEIR, "validate", path], input=GOOD, text=True,
                                 capture_output=True, timeout=20)
            self.assertEqual((run.returncode, run.stdout), (0, f"{path}: 2 policies, 6 limits\n"))

    # All mistakes are shown at once, however many there are.
    def test_reports_hundreds_of_mistakes(self):
        self.file("weir.yaml", "policies:\n" + "".join(f"  p{i}: {{ limits: [ 5/sec ] }}\n" for i in range(500)))
        run = self.weir("weir.yaml")
        self.assertEqual(run.returncode, 1)
        for i in range(500):
            self.assertIn(f'weir.yaml:{i + 2}:{20 + len(str(i))}: unknown unit "sec"', run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 3 * 500)

    def test_hostile_files_end_with_a_clear_error(self):
        hostile = {
            "empty": "",
            "a megabyte of one line": "x" * (1 << 20),
            "deep": "policies: " + "[" * 200_000,
            "binary": bytes(range(256)) * 64,
            "many unknown fields": "\n".join(f"f{i}: 1" for i in range(50_000)),
            "many bad overrides": "policies: { a: { limits: 1/s, overrides: {"
                                  + ",".join(f"k{i}: 1/sec" for i in range(20_000)) + "} } }",
        }
        mistakes = {"many unknown fields": 50_000, "many bad overrides": 20_000}
        for name, text in hostile.items():
            with self.subTest(name):
                path = self.file("hostile.yaml", text)
                run = subprocess.run([WEIR, "validate", path], capture_output=True, timeout=120)
                self.assertEqual(run.returncode, 1)
                self.assertLess(len(run.stderr), 20_000 + 400 * mistakes.get(name, 0))
                self.assertIn(b"hostile.yaml:", run.stderr)

    def test_thousands_of_overrides_are_read(self):
        keys = "\n".join(f"      key-{i}: {i + 1}/s" for i in range(20_000))
        self.file("weir.yaml", f"policies:\n  a:\n    limits: 1/s\n    overrides:\n{keys}\n")
        self.assertEqual(self.weir("weir.yaml").stdout, "weir.yaml: 1 policy, 20001 limits\n")


if __name__ == "__main__":
    unittest.main()
