"""proto/openapi.yaml against a running daemon: openapi_test.py WEIR SOURCE."""

import copy
import http.client
import json
import re
import sys
import unittest
from pathlib import Path
from urllib.parse import quote, urlencode

import jsonschema
import yaml

from daemon import Daemon
from redis_server import RedisServer

SOURCE = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)
API = yaml.safe_load((SOURCE / "proto" / "openapi.yaml").read_text())
# The policies of the examples.
POLICIES = (SOURCE / "examples" / "weir.yaml").read_text()
ENVOY = f"envoy_ratelimit: {SOURCE / 'examples' / 'envoy.yaml'}\n"
ROUTES = (SOURCE / "src" / "server" / "http_routes.cc").read_text()

METHODS = ["get", "post", "put", "delete", "patch"]
# Headers that every response may have.
COMMON_FIELDS = {"Date", "Content-Type", "Content-Length", "Connection"}


def resolved(node):
    while "$ref" in node:
        found = API
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


def operations():
    """(path, method, operation) of all operations."""
    for path, item in API["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                yield path, method, operation


def parameters(path, place):
    """name: example, for the parameters of a path."""
    found = API["paths"][path].get("parameters", [])
    return {p["name"]: str(p["example"]) for p in found if p["in"] == place}


def target(path, **query):
    """A path with its parameters filled in."""
    for name, example in parameters(path, "path").items():
        path = path.replace("{" + name + "}", quote(example))
    return path + ("?" + urlencode(query) if query else "")


def body_of(operation):
    return operation.get("requestBody", {}).get("content", {}).get("application/json")


def request_examples(operation):
    """(name, body) of each example."""
    content = body_of(operation) or {}
    return [(name, example["value"]) for name, example in content.get("examples", {}).items()]


def validator(schema):
    # References are to the whole file.
    return jsonschema.Draft202012Validator(
        schema, resolver=jsonschema.RefResolver.from_schema(API),
        format_checker=jsonschema.FormatChecker())


def object_schema(schema):
    """The schema of one item, if there may be a batch."""
    schema = resolved(schema)
    return resolved(schema["oneOf"][0]) if "oneOf" in schema and "type" not in schema else schema


class OpenApiTest(unittest.TestCase):
    """Tests with a new daemon each, without any usage."""

    extra = ""

    def setUp(self):
        self.daemon = Daemon(WEIR, POLICIES, extra=ENVOY + self.extra)
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    # ---- Checking an answer

    def check_response(self, response, answer):
        """Checks a response against its schema."""
        status, headers, body = answer
        response = resolved(response)
        documented = response.get("headers", {})
        self.assertLessEqual(set(headers.keys()), COMMON_FIELDS | set(documented))
        for name, header in documented.items():
            header = resolved(header)
            if name not in headers:
                self.assertFalse(header.get("required"), f"{name} is missing")
                continue
            whole = header["schema"].get("type") == "integer"
            validator(header["schema"]).validate(int(headers[name]) if whole else headers[name])
        media_type = headers["Content-Type"].split(";")[0]
        self.assertIn(media_type, response["content"])
        schema = response["content"][media_type]["schema"]
        validator(schema).validate(body.decode() if isinstance(body, bytes) else body)
        if media_type == "application/problem+json":
            self.assertEqual(body["status"], status)

    def check(self, operation, answer, expected=None):
        status = answer[0]
        responses = operation["responses"]
        if expected is not None:
            self.assertEqual(status, expected, answer[2])
        found = responses.get(str(status)) or responses.get(f"{status // 100}XX")
        self.assertIsNotNone(found, f"{status} is not documented")
        self.check_response(found, answer)
        return answer[2]

    def call(self, path, method, body=None, headers=None, expected=None, **query):
        operation = API["paths"][path][method]
        answer = self.daemon.http(method.upper(), target(path, **query), body, headers)
        return self.check(operation, answer, expected)


class FileTest(unittest.TestCase):
    """Checks of the file itself."""

    def test_schemas_are_valid_json_schemas(self):
        for schema in API["components"]["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)

    def test_every_reference_leads_somewhere(self):
        used = set()

        def visit(node):
            for child in node.values() if isinstance(node, dict) else node:
                if isinstance(child, (dict, list)):
                    visit(child)
            if isinstance(node, dict) and "$ref" in node:
                resolved(node)
                used.add(node["$ref"])

        visit(API)
        for kind in ["schemas", "headers", "responses"]:
            for name in API["components"][kind]:
                # (These are responses to requests that the file does not list.)
                if name not in ["NotFound", "MethodNotAllowed"]:
                    self.assertIn(f"#/components/{kind}/{name}", used)

    def test_examples_of_answers_are_valid(self):
        responses = list(API["components"]["responses"].values())
        responses += [r for _, _, o in operations() for r in o["responses"].values()]
        count = 0
        for response in map(resolved, responses):
            for content in response.get("content", {}).values():
                for example in content.get("examples", {}).values():
                    validator(content["schema"]).validate(example["value"])
                    count += 1
        self.assertGreater(count, 5)

    def test_examples_of_requests_are_valid(self):
        for path, method, operation in operations():
            content = body_of(operation)
            for name, body in request_examples(operation):
                with self.subTest(path=path, example=name):
                    # In batches some items are wrong, to show their errors.
                    if not isinstance(body, list):
                        validator(content["schema"]).validate(body)
            if content:
                self.assertTrue(request_examples(operation), f"{method} {path} has no example")

    def test_operations_have_unique_names(self):
        names = [operation["operationId"] for _, _, operation in operations()]
        self.assertEqual(len(names), len(set(names)))

    def test_the_file_has_the_version_of_the_project(self):
        project = (SOURCE / "CMakeLists.txt").read_text()
        self.assertEqual(API["info"]["version"], re.search(r"project\(weir VERSION (\S+)", project)[1])


class RoutesTest(OpenApiTest):
    def test_every_operation_is_served(self):
        for path, method, operation in operations():
            with self.subTest(path=path, method=method):
                answer = self.daemon.http(method.upper(), target(path), "" if method != "get" else None)
                self.assertNotEqual(answer[0], 405)
                if "{" not in path:  # no such policy or order exists yet
                    self.assertNotEqual(answer[0], 404)
                self.check(operation, answer)

    def test_every_path_has_exactly_the_documented_methods(self):
        for path, item in API["paths"].items():
            if item.get("x-any-method"):
                self.assertNotEqual(self.daemon.http("PATCH", target(path), "")[0], 405)
                continue
            with self.subTest(path=path):
                methods = {method.upper() for method in item if method in METHODS}
                if "GET" in methods:
                    methods.add("HEAD")
                answer = self.daemon.http("PATCH", target(path), "")
                self.assertEqual(answer[0], 405)
                self.assertEqual(set(answer[1]["Allow"].split(", ")), methods)
                self.check_response(API["components"]["responses"]["MethodNotAllowed"], answer)
                if "GET" in methods:
                    self.assertEqual(self.status_of_head(target(path)),
                                     self.daemon.http("GET", target(path))[0])

    def status_of_head(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.http_port, timeout=20)
        connection.request("HEAD", path)
        response = connection.getresponse()
        self.assertEqual(response.read(), b"")
        connection.close()
        return response.status

    def test_every_route_is_documented(self):
        ours = {(path, method.upper()) for path, method, _ in operations()}
        table = re.findall(r'Route\{(\S+), "([A-Z]+|\*)"', ROUTES)
        self.assertGreater(len(table), 15)
        for path, method in table:
            path = {"kPolicyPath": "/v1/policies/{name}",
                    "kOrderPath": "/v1/orders/{id}"}.get(path, path.strip('"'))
            if method == "*":
                self.assertTrue(API["paths"][path]["x-any-method"])
                method = next(method.upper() for method in API["paths"][path] if method in METHODS)
            self.assertIn((path, method), ours)
        self.assertEqual(len(table), len(ours))

    def test_other_paths_are_404(self):
        for path in ["/v1", "/v1/", "/v1/take/", "/v1/nothing", "/v1/policie", "/JSON", "//"]:
            answer = self.daemon.http("GET", path)
            self.assertEqual(answer[0], 404, path)
            self.check_response(API["components"]["responses"]["NotFound"], answer)


class ExamplesTest(OpenApiTest):
    def test_every_example_of_a_body_is_accepted(self):
        for path, method, operation in operations():
            for name, body in request_examples(operation):
                with self.subTest(path=path, example=name):
                    if isinstance(body, dict) and isinstance(body.get("receipt"), str):
                        taken = self.call("/v1/take", "post", {
                            "policy": body["policy"], "key": body["key"], "permits": 5000,
                            "receipt": True})
                        body = {**body, "receipt": taken["receipt"]}
                    expected = 429 if name.startswith("refused") else 200
                    answer = self.call(path, method, body, expected=expected)
                    self.assertEqual(isinstance(answer, list), isinstance(body, list))

    def test_policies_are_accepted_in_yaml(self):
        self.call("/v1/policies/{name}", "put", "limits:\n  - 5/s burst 9\n  - 100/h\n",
                  {"Content-Type": "application/yaml"}, 200)

    def test_examples_for_proxies_are_accepted(self):
        query, headers = (parameters("/v1/auth", place) for place in ["query", "header"])
        for method in ["get", "post"]:
            self.call("/v1/auth", method, expected=200, **query)
            self.call("/v1/auth", method, headers=headers, expected=200)


class DecisionsTest(OpenApiTest):
    def test_allowed_and_refused_calls_match_the_schema(self):
        body = {"policy": "login", "key": "decided"}
        for remaining in [4, 3, 2, 1, 0]:
            decision = self.call("/v1/take", "post", body, expected=200)
            self.assertEqual((decision["allowed"], decision["remaining"]), (True, remaining))
        status, headers, decision = self.daemon.http("POST", "/v1/take", body)
        self.check(API["paths"]["/v1/take"]["post"], (status, headers, decision), 429)
        self.assertFalse(decision["allowed"])
        for name in ["RateLimit", "RateLimit-Policy", "Retry-After", "Cache-Control"]:
            self.assertIn(name, headers)
        self.assertFalse(self.call("/v1/peek", "post", body, expected=200)["allowed"])
        self.assertFalse(self.call("/v1/explain", "post", body, expected=200)["decision"]["allowed"])
        self.call("/v1/reset", "post", body, expected=200)
        self.call("/v1/take", "post", body, expected=200)

    def test_explain_names_the_rule_that_applied(self):
        policy = {"limits": ["5/h"], "overrides": {"big*": "9/h"},
                  "schedule": [{"days": "mon-sun", "hours": "00:00-24:00", "limits": ["7/h"]}]}
        self.call("/v1/policies/{name}", "put", policy, expected=200)
        explain = lambda key: self.call("/v1/explain", "post", {"policy": "trial", "key": key},
                                        expected=200)["limits"][0]
        self.assertEqual(explain("big one")["override"], "big*")
        self.assertIn('9/h, override of "big*": 9 of 9 left', explain("big one")["text"])
        self.assertIn("schedule", explain("small"))
        self.assertNotIn("override", explain("small"))

    def test_batch_answers_match_the_schema(self):
        answers = self.call("/v1/take", "post", [
            {"policy": "login", "key": "batch", "permits": 5, "receipt": True},
            {"policy": "login", "key": "batch"}, {"policy": "login"}, {}], expected=200)
        self.assertEqual([answer.get("allowed") for answer in answers], [True, False, None, None])
        self.assertIn("receipt", answers[0])
        for path in ["take", "peek", "settle", "reset", "enter", "leave", "explain", "throttle"]:
            self.assertEqual(self.call(f"/v1/{path}", "post", [], expected=200), [])
            self.assertEqual(list(self.call(f"/v1/{path}", "post", [{}], expected=200)[0]), ["error"])
            self.call(f"/v1/{path}", "post", [{}] * 1001, expected=400)

    def test_settle_answers_match_the_schema(self):
        body = {"policy": "llm", "key": "settled"}
        receipt = self.call("/v1/take", "post", {**body, "permits": 50000, "receipt": True})["receipt"]
        settled = self.call("/v1/settle", "post", {**body, "delta": -50000, "receipt": receipt},
                            expected=200)
        self.assertTrue(settled["allowed"])
        self.call("/v1/settle", "post", {**body, "delta": -1, "receipt": "made up"}, expected=404)
        problem = self.call("/v1/settle", "post", {**body, "delta": -1}, expected=400)
        self.assertEqual(problem["field"], "receipt")
        # Into debt.
        self.call("/v1/settle", "post", {**body, "delta": 150000}, expected=200)
        self.call("/v1/take", "post", body, expected=429)

    def test_enter_and_leave_answers_match_the_schema(self):
        body = {"policy": "report", "key": "held"}
        holders = [self.call("/v1/enter", "post", body, expected=200)["holder"] for _ in range(8)]
        self.assertEqual(len(set(holders)), 8)
        self.call("/v1/enter", "post", {**body, "holder": "late"}, expected=429)
        left = [self.call("/v1/leave", "post", {**body, "holder": holders[0]})["left"] for _ in "12"]
        self.assertEqual(left, [True, False])
        self.call("/v1/enter", "post", {**body, "holder": "late"}, expected=200)

    def test_throttle_answers_match_the_schema(self):
        body = {"key": "throttled", "limit": "2/h"}
        statuses = [self.daemon.http("POST", "/v1/throttle", body)[0] for _ in range(2)]
        self.assertEqual(statuses, [200, 200])
        self.call("/v1/throttle", "post", body, expected=429)

    def test_policy_answers_match_the_schema(self):
        put = self.call("/v1/policies/{name}", "put", {"limits": ["7/min"]}, expected=200)
        listed = self.call("/v1/policies", "get", expected=200)
        self.assertEqual(listed["generation"], put["generation"])
        trial = listed["policies"]["trial"]
        self.assertEqual((trial["limits"], trial["source"]), (["7/min"], "put"))
        shown = self.call("/v1/policies/{name}", "get", expected=200)
        self.assertEqual(shown, {**trial, "name": "trial", "generation": put["generation"]})
        self.call("/v1/policies/{name}", "delete", expected=200)
        self.call("/v1/policies/{name}", "delete", expected=404)
        self.call("/v1/policies/{name}", "get", expected=404)
        self.assertNotIn("trial", self.call("/v1/policies", "get", expected=200)["policies"])

    def test_fleet_answers_match_the_schema(self):
        self.assertEqual(self.call("/v1/fleet", "get", expected=200), {"fleet": False})
        with RedisServer() as redis, Daemon(WEIR, POLICIES, extra=f"store: {redis.url}") as daemon:
            told = daemon.http("GET", "/v1/fleet")[2]
        schema = {**API["components"]["schemas"]["Fleet"], "components": API["components"]}
        jsonschema.validate(told, schema)
        self.assertEqual(len(told["nodes"]), 1)

    def test_top_answers_match_the_schema(self):
        for key in ["often", "often", "seldom"]:
            self.call("/v1/take", "post", {"policy": "login", "key": key})
        top = self.call("/v1/top", "get", expected=200, **parameters("/v1/top", "query"))
        self.assertEqual([policy["policy"] for policy in top["policies"]], ["login"])
        self.assertEqual(top["policies"][0]["top_allowed"],
                         [{"key": "often", "count": 2, "error": 0},
                          {"key": "seldom", "count": 1, "error": 0}])
        everything = self.call("/v1/top", "get", expected=200)
        self.assertEqual({policy["policy"] for policy in everything["policies"]},
                         set(self.call("/v1/policies", "get")["policies"]))
        problem = self.call("/v1/top", "get", expected=404, policy="logn")
        self.assertIn('did you mean "login"?', problem["detail"])
        for name, value in [("limit", "0"), ("limit", "65"), ("limit", "x")]:
            problem = self.call("/v1/top", "get", expected=400, **{name: value})
            self.assertEqual(problem["field"], name)

    def test_proxies_choose_the_status_of_a_refusal(self):
        for method in ["get", "post"]:
            for deny in [None, 400, 401, 403, 404, 413, 429, 503, 599]:
                query = {"policy": "login", "key": "proxy", "permits": "6"}
                if deny:
                    query["deny"] = str(deny)
                decision = self.call("/v1/auth", method, expected=deny or 429, **query)
                self.assertFalse(decision["allowed"])


class ProblemsTest(OpenApiTest):
    def bodies(self):
        """(path, method, schema of an object, a good example) for each body."""
        for path, method, operation in operations():
            content = body_of(operation)
            if content:
                good = next(b for _, b in request_examples(operation) if isinstance(b, dict))
                yield path, method, object_schema(content["schema"]), good

    def test_undocumented_fields_are_refused(self):
        count = 0
        for path, method, schema, good in self.bodies():
            self.assertIs(schema["additionalProperties"], False)
            known = set(schema["properties"])
            # Any field that another route has.
            others = {name for _, _, s, _ in self.bodies() for name in s["properties"]}
            for name in {"undocumented", *others} - known:
                with self.subTest(path=path, field=name):
                    problem = self.call(path, method, {**good, name: 1}, expected=400)
                    self.assertIn(f'"{name}"', problem["detail"])
                    count += 1
        self.assertGreater(count, 50)

    def test_every_field_is_known(self):
        """A documented field is never called unknown, whatever its value."""
        for path, method, schema, good in self.bodies():
            for name in schema["properties"]:
                with self.subTest(path=path, field=name):
                    _, _, answer = self.daemon.http(method.upper(), target(path), {**good, name: None})
                    detail = answer.get("detail", "")
                    self.assertNotIn("there is no field", detail)
                    self.assertNotIn("unknown field", detail)
                    self.assertNotIn("has no field", detail)

    def test_every_field_of_a_limit_is_known(self):
        limit = API["components"]["schemas"]["Limit"]["oneOf"][1]
        for name in [*limit["properties"], "undocumented"]:
            body = {"limits": [{"limit": "1/s", name: "nonsense"}]}
            _, _, answer = self.daemon.http("PUT", "/v1/policies/trial", body)
            self.assertEqual("has no field" in answer.get("detail", ""), name == "undocumented", name)

    def test_required_fields_are_required(self):
        for path, method, schema, good in self.bodies():
            required = set(schema["required"])
            if "oneOf" in schema:
                required.add("key")
            for name in required:
                with self.subTest(path=path, field=name):
                    body = copy.deepcopy(good)
                    del body[name]
                    problem = self.call(path, method, body, expected=400)
                    if path == "/v1/policies/{name}":
                        self.assertIn(f"needs {name}", problem["detail"])
                    else:
                        self.assertEqual(problem["field"], name)
            # All other fields are optional: without one of them, the request is still valid.
            # Skipped: alternatives like times and add, one of which is required.
            either = {name for choice in schema.get("allOf", []) for one in choice["oneOf"]
                      for name in one["required"]}
            for name in set(good) - required - either:
                body = {field: value for field, value in good.items() if field != name}
                self.assertNotEqual(self.daemon.http(method.upper(), target(path), body)[0], 400)

    def test_key_and_parts_are_checked(self):
        for path, method, schema, good in self.bodies():
            if "oneOf" in schema:
                both = {**good, "parts": {"user": "1"}}
                self.assertFalse(validator(schema).is_valid(both))
                self.assertEqual(self.call(path, method, both, expected=400)["field"], "parts")

    def test_every_type_and_bound_is_checked(self):
        """The daemon refuses, by the field's name, every value that the schema refuses."""
        wrong = [None, True, "text", "", -1, 0, 1.5, [], {}, {"user": 1}, 2**63]
        count = 0
        for path, method, schema, good in self.bodies():
            if method != "post":
                continue
            for name, field in schema["properties"].items():
                for value in wrong:
                    body = {**good, name: value}
                    if name == "parts":
                        del body["key"]
                    if validator(field).is_valid(value) and value != 2**63:
                        continue
                    with self.subTest(path=path, field=name, value=value):
                        problem = self.call(path, method, body, expected=400)
                        self.assertEqual(problem["field"], name)
                        count += 1
        self.assertGreater(count, 100)

    def test_unknown_policies_match_the_schema_of_problems(self):
        for path, method, schema, good in self.bodies():
            if "policy" in schema["properties"]:
                problem = self.call(path, method, {**good, "policy": "nobody"}, expected=404)
                self.assertEqual(problem["field"], "policy")

    def test_malformed_bodies_are_refused(self):
        for path, method, _, good in self.bodies():
            with self.subTest(path=path):
                self.call(path, method, "[}", expected=400)
                self.call(path, method, "", expected=400)
                self.call(path, method, "5", expected=400)
                if method == "post":
                    text = json.dumps(good)
                    self.call(path, method, text, {"Content-Type": "text/plain"}, expected=415)
                self.call(path, method, " " * ((1 << 20) + 1), expected=413)

    def test_bodies_without_a_length_are_refused(self):
        for path, method, _, _ in self.bodies():
            with self.subTest(path=path):
                connection = http.client.HTTPConnection("127.0.0.1", self.daemon.http_port, timeout=20)
                connection.putrequest(method.upper(), target(path))
                connection.endheaders()
                response = connection.getresponse()
                answer = (response.status, response.headers, json.loads(response.read()))
                connection.close()
                self.check(API["paths"][path][method], answer, 411)

    def test_documented_parameters_are_checked(self):
        query = {"policy": "login", "key": "k"}
        for name, value in [("policy", ""), ("key", ""), ("permits", "-1"), ("permits", "x"),
                            ("deny", "399"), ("deny", "600")]:
            for method in ["get", "post"]:
                problem = self.call("/v1/auth", method, expected=400, **{**query, name: value})
                self.assertEqual(problem["field"], name)
        self.call("/v1/auth", "get", expected=404, policy="nobody", key="k")
        for method in ["put", "delete"]:
            for name in ["", "x" * 257, "%ff"]:
                answer = self.daemon.http(method.upper(), f"/v1/policies/{name}", "")
                self.check(API["paths"]["/v1/policies/{name}"][method], answer, 400)

    def test_a_page_of_another_origin_changes_nothing(self):
        for path, method, operation in operations():
            if "403" in operation["responses"] and path != "/v1/auth":
                self.call(path, method, "{}", {"Host": "evil.example"}, expected=403)


class AccessTest(OpenApiTest):
    extra = "password: let me in\nadmin_token: and do more\n"

    def status(self, path, method, secret=None):
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        answer = self.daemon.http(method.upper(), target(path), "{}", headers)
        self.check(API["paths"][path][method], answer)
        return answer[0]

    def test_each_operation_requires_the_documented_token(self):
        for path, method, operation in operations():
            with self.subTest(path=path, method=method):
                security = operation.get("security", API["security"])
                schemes = {name for choice in security for name in choice}
                self.assertEqual(self.status(path, method) == 401, schemes != set())
                self.assertEqual(self.status(path, method, "nonsense") == 401, schemes != set())
                self.assertEqual(self.status(path, method, "let me in") == 401,
                                 schemes == {"admin_token"})
                self.assertNotEqual(self.status(path, method, "and do more"), 401)


if __name__ == "__main__":
    unittest.main()
