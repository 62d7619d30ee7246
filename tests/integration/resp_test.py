"""The RESP listener of a running daemon: resp_test.py WEIR."""

import sys
import unittest

from daemon import Daemon, RespError

WEIR = sys.argv.pop(1)
NAMES = ["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "wait_ms",
         "limited_by", "degraded"]


class RespTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(WEIR)
        cls.daemon.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def setUp(self):
        self.resp = self.daemon.resp()

    def tearDown(self):
        self.resp.close()

    def error(self, *words):
        answer = self.resp(*words)
        self.assertIsInstance(answer, RespError, answer)
        return str(answer)

    # ---- WEIR.TAKE

    def test_take_answers_eight_values(self):
        self.assertEqual(self.resp("WEIR.TAKE", "llm", "eight", 400),
                         [1, 1000, 600, 0, 1440000000, 0, "tokens", 0])
        refused = self.resp("WEIR.TAKE", "llm", "eight", 601)
        self.assertEqual([refused[0], refused[1], refused[2], refused[6], refused[7]],
                         [0, 1000, 600, "tokens", 0])
        self.assertTrue(0 < refused[3] <= 3_600_000)

    def test_take_names_its_values_in_resp3(self):
        self.assertEqual(self.resp("HELLO", "3")["proto"], 3)
        answer = self.resp("WEIR.TAKE", "llm", "named", 400)
        self.assertEqual(list(answer), NAMES)
        self.assertEqual(answer["remaining"], 600)

    def test_a_cost_above_the_burst_has_no_retry_time(self):
        self.assertEqual(self.resp("WEIR.TAKE", "llm", "never", 1001)[3], -1)

    def test_take_accepts_parts(self):
        take = lambda user, sku: self.resp("WEIR.TAKE", "seckill", "PARTS", "user", user,
                                           "sku", sku)
        self.assertEqual(take("ann", "1")[0], 1)
        self.assertEqual(take("ann", "1")[0:7:6], [0, "user"])
        self.assertEqual(take("bob", "1")[0], 1)
        # The order of the parts does not matter.
        self.assertEqual(self.resp("WEIR.TAKE", "seckill", "PARTS", "sku", 1, "user", "bob")[0], 0)

    def test_options_come_before_the_parts(self):
        answer = self.resp("WEIR.TAKE", "seckill", "PERMITS", 2, "PARTS", "user", "eve", "sku", "2")
        self.assertEqual(answer[3], -1)  # one user never gets two at once
        answer = self.resp("weir.take", "seckill", "permits", 1, "wait", 100, "receipt",
                           "parts", "user", "eve", "sku", "2")
        self.assertEqual((answer[0], len(answer)), (1, 9))

    def test_a_key_may_be_called_like_an_option(self):
        self.assertEqual(self.resp("WEIR.TAKE", "llm", "PARTS", 999)[2], 1)
        self.assertEqual(self.resp("WEIR.PEEK", "llm", "PARTS")[2], 1)
        self.assertEqual(self.resp("WEIR.TAKE", "llm", "PERMITS", 999)[2], 1)

    def test_queues_return_the_time_to_wait(self):
        waits = [self.resp("WEIR.TAKE", "batch", "q")[5] for _ in range(4)]
        self.assertEqual(waits[0], 0)
        self.assertTrue(900 < waits[1] <= 1000 and 2900 < waits[3] <= 3000, waits)
        self.assertEqual(self.resp("WEIR.TAKE", "batch", "q")[0], 0)
        impatient = self.resp("WEIR.TAKE", "batch", "other", 1, "WAIT", 0)
        self.assertEqual(impatient[0], 1)
        self.assertEqual(self.resp("WEIR.TAKE", "batch", "other", 1, "WAIT", 0)[0], 0)

    def test_pipelined_commands_are_answered_in_order(self):
        commands = []
        for i in range(150):
            commands.append(self.resp.encode("WEIR.TAKE", "llm", "together"))
            if i % 7 == 0:
                commands.append(self.resp.encode("ECHO", i))
            if i % 10 == 0:
                commands.append(self.resp.encode("WEIR.TAKE", "nobody", "x"))
        self.resp.socket.sendall(b"".join(commands))
        for i in range(150):
            self.assertEqual(self.resp.read()[2], 999 - i)
            if i % 7 == 0:
                self.assertEqual(self.resp.read(), str(i))
            if i % 10 == 0:
                self.assertIn("no policy", str(self.resp.read()))

    def test_inline_commands_are_answered(self):
        self.resp.socket.sendall(b"WEIR.TAKE llm 'in line' 10\r\nWEIR.TAKE llm \"in line\" 10\n")
        self.assertEqual(self.resp.read()[2], 990)
        self.assertEqual(self.resp.read()[2], 980)

    def test_keys_are_bytes(self):
        key = bytes(range(256))
        self.assertEqual(self.resp("WEIR.TAKE", "llm", key, 10)[2], 990)
        self.assertEqual(self.resp("WEIR.PEEK", "llm", key)[2], 990)
        self.assertEqual(self.resp("WEIR.TAKE", "llm", b"x" * 4096, 10)[2], 990)

    def test_errors_keep_the_connection_open(self):
        self.assertEqual(self.error("WEIR.TAKE", "logn", "a"),
                         'ERR there is no policy "logn" (did you mean "login"?)')
        self.assertIn("empty", self.error("WEIR.TAKE", "llm", ""))
        self.assertIn("4096", self.error("WEIR.TAKE", "llm", "x" * 4097))
        self.assertIn("not an integer", self.error("WEIR.TAKE", "llm", "a", "many"))
        self.assertIn("not an integer", self.error("WEIR.TAKE", "llm", "a", 1, "WAIT", "-1"))
        self.assertIn("syntax", self.error("WEIR.TAKE", "llm", "a", 1, "WAIT"))
        self.assertIn("syntax", self.error("WEIR.TAKE", "llm", "a", 1, "PLEASE"))
        self.assertIn("pairs", self.error("WEIR.TAKE", "seckill", "PARTS", "user", "a", "sku"))
        self.assertIn("PARTS is missing", self.error("WEIR.TAKE", "llm", "PERMITS", 1, "RECEIPT"))
        self.assertIn('"sku"', self.error("WEIR.TAKE", "seckill", "PARTS", "user", "ann"))
        self.assertIn("wrong number of arguments for 'weir.take'", self.error("WEIR.TAKE", "llm"))
        self.assertIn("unknown command 'FLUSHALL'", self.error("FLUSHALL"))
        self.assertIn("enter and leave", self.error("WEIR.TAKE", "report", "a"))
        self.assertEqual(self.resp("PING"), "PONG")

    # ---- Other commands

    def test_peek_takes_nothing(self):
        for _ in range(3):
            self.assertEqual(self.resp("WEIR.PEEK", "llm", "peeked", 1000)[:3], [1, 1000, 1000])
        self.assertEqual(self.resp("WEIR.PEEK", "llm", "peeked", 1001)[0], 0)

    def test_settle_needs_a_valid_receipt(self):
        answer = self.resp("WEIR.TAKE", "llm", "settled", 500, "RECEIPT")
        receipt = answer[8]
        self.assertEqual(self.resp("WEIR.SETTLE", "llm", "settled", -200, "RECEIPT", receipt)[2],
                         700)
        # A refund never exceeds the taken permits, however often it is repeated.
        for _ in range(3):
            last = self.resp("WEIR.SETTLE", "llm", "settled", -500, "RECEIPT", receipt)
        self.assertEqual(last[2], 1000)
        self.assertEqual(self.resp("WEIR.SETTLE", "llm", "settled", 1500)[2], 0)
        self.assertIn("needs the receipt", self.error("WEIR.SETTLE", "llm", "settled", -1))
        # A debit is charged even if its receipt is forgotten, as after a restart.
        self.assertIn("no such receipt",
                      self.error("WEIR.SETTLE", "llm", "other", -1, "RECEIPT", "forgotten"))
        before = self.resp("WEIR.PEEK", "llm", "other")[2]
        self.resp("WEIR.SETTLE", "llm", "other", 30, "RECEIPT", "forgotten")
        self.assertEqual(self.resp("WEIR.PEEK", "llm", "other")[2], before - 30)
        self.assertIn("no such receipt",
                      self.error("WEIR.SETTLE", "llm", "settled", -1, "RECEIPT", "0" * 32))

    def test_a_refused_take_has_an_empty_receipt(self):
        answer = self.resp("WEIR.TAKE", "llm", "refused", 1001, "RECEIPT")
        self.assertEqual((len(answer), answer[8]), (9, ""))

    def test_reset_forgets_the_usage(self):
        self.resp("WEIR.TAKE", "llm", "reset", 1000)
        self.assertEqual(self.resp("WEIR.RESET", "llm", "reset"), "OK")
        self.assertEqual(self.resp("WEIR.PEEK", "llm", "reset")[2], 1000)

    def test_enter_and_leave_count_holders(self):
        first = self.resp("WEIR.ENTER", "report", "r")
        self.assertEqual((first[0], len(first)), (1, 9))
        second = self.resp("WEIR.ENTER", "report", "r", "me")
        self.assertEqual((second[0], second[8]), (1, "me"))
        self.assertEqual(self.resp("WEIR.ENTER", "report", "r", "me")[0], 1)  # renews
        self.assertEqual(self.resp("WEIR.ENTER", "report", "r", "you")[0], 0)
        self.assertEqual(self.resp("WEIR.LEAVE", "report", "r", first[8]), 1)
        self.assertEqual(self.resp("WEIR.LEAVE", "report", "r", first[8]), 0)
        self.assertEqual(self.resp("WEIR.ENTER", "report", "r", "you")[0], 1)
        self.assertIn("no policy", self.error("WEIR.LEAVE", "nobody", "r", "you"))
        parts = self.resp("WEIR.ENTER", "report", "HOLDER", "h", "PARTS", "a", "b")
        self.assertEqual((parts[0], parts[8]), (1, "h"))
        self.assertEqual(self.resp("WEIR.LEAVE", "report", "HOLDER", "h", "PARTS", "a", "b"), 1)

    def test_explain_returns_a_line_for_each_limit(self):
        lines = self.resp("WEIR.EXPLAIN", "api", "explained", 5)
        self.assertEqual(len(lines), 2)
        self.assertEqual(lines[0], "rate: 10/s burst 100: 100 of 100 left; a cost of 5 passes")

    def test_policies_lists_names(self):
        self.assertEqual(self.resp("WEIR.POLICIES"),
                         ["api", "batch", "llm", "login", "report", "seckill"])

    # ---- CL.THROTTLE

    def test_throttle_answers_as_redis_cell(self):
        throttle = lambda *words: self.resp("CL.THROTTLE", "cell", *words)
        self.assertEqual(throttle(4, 1, 1, 6), [1, 5, 5, -1, 0])
        for left in (4, 3, 2, 1, 0):
            answer = throttle(4, 1, 1)
            self.assertEqual(answer[:4], [0, 5, left, -1])
            self.assertIn(answer[4], (5 - left, 4 - left))  # time passes between the calls
        self.assertEqual(throttle(4, 1, 1), [1, 5, 0, 1, 5])
        # Other parameters find the same instant.
        self.assertEqual(throttle(9, 1, 1)[:3], [0, 10, 4])

    def test_throttle_errors_are_those_of_redis_cell(self):
        self.assertEqual(self.error("CL.THROTTLE", "k", 1, 1),
                         "Cell error: Store error: Usage: cl.throttle <key> <max_burst> "
                         "<count per period> <period> [<quantity>]")
        self.assertEqual(self.error("CL.THROTTLE", "k", "x", 1, 1),
                         "Cell error: Store error: Couldn't parse as integer: x")
        self.assertEqual(self.error("CL.THROTTLE", "k", 1, 0, 1),
                         "Cell error: Store error: Zero rates are not supported")
        self.assertEqual(self.error("CL.THROTTLE", "k", 1, 1, 0),
                         "Cell error: Store error: Zero rates are not supported")
        # So many permits that a single one costs nothing.
        self.assertEqual(self.error("CL.THROTTLE", "k", 0, 2000000000, 1),
                         "Cell error: Store error: Zero rates are not supported")
        self.assertEqual(self.resp("CL.THROTTLE", "plus", "+4", "+1", "+60", "+2")[:3], [0, 5, 3])
        for text in ("+", "++1", "+-1", " 1"):
            self.assertIn("Couldn't parse", self.error("CL.THROTTLE", "k", 1, text, 1))

    # ---- Commands of client libraries

    def test_commands_that_clients_send_on_connecting_are_answered(self):
        self.assertEqual(self.resp("PING"), "PONG")
        self.assertEqual(self.resp("PING", "hi"), "hi")
        self.assertEqual(self.resp("ECHO", "hi"), "hi")
        self.assertEqual(self.resp("SELECT", 0), "OK")
        self.assertIn("out of range", self.error("SELECT", 1))
        self.assertEqual(self.resp("CLIENT", "SETNAME", "me"), "OK")
        self.assertEqual(self.resp("CLIENT", "GETNAME"), "me")
        self.assertEqual(self.resp("CLIENT", "SETINFO", "LIB-NAME", "x"), "OK")
        self.assertIn("weir_version:", self.resp("INFO"))
        self.assertTrue(len(self.resp("COMMAND")) >= 20)
        self.assertEqual(self.resp("COMMAND", "DOCS"), [])
        self.assertIn("without any password", self.error("AUTH", "x"))
        self.assertEqual(self.resp("HELLO")[:2], ["server", "weir"])
        self.assertIn("NOPROTO", self.error("HELLO", 4))
        self.assertEqual(self.resp("HELLO", 3, "SETNAME", "you")["proto"], 3)
        self.assertEqual(self.resp("CLIENT", "GETNAME"), "you")
        self.assertEqual(self.resp("RESET"), "RESET")
        self.assertIsNone(self.resp("CLIENT", "GETNAME"))
        self.assertEqual(self.resp("QUIT"), "OK")
        with self.assertRaises(EOFError):
            self.resp.read()

    def test_command_describes_the_commands(self):
        info = lambda *names: self.resp("COMMAND", "INFO", *names)
        self.assertEqual(info("weir.take", "nothing", "CL.THROTTLE", "Ping", "weir.policies", "auth"),
                         [["weir.take", -3, ["write"], 2, 2, 1], None,
                          ["cl.throttle", -1, ["write"], 1, 1, 1],
                          ["ping", -1, [], 0, 0, 0], ["weir.policies", 1, [], 0, 0, 0],
                          ["auth", -2, ["no_auth"], 0, 0, 0]])
        self.assertEqual(info(), self.resp("COMMAND"))
        names = self.resp("COMMAND", "LIST")
        self.assertEqual(names, [described[0] for described in info(*names)])
        self.assertEqual(len(names), self.resp("COMMAND", "COUNT"))
        self.assertIn("unknown subcommand", self.error("COMMAND", "LIST", "FILTERBY", "x"))

    def test_the_largest_command_is_accepted_and_a_larger_one_refused(self):
        words = ["CLIENT", "SETINFO", "x" * 16384, "x" * 16384, "x" * 16384]
        rest = 65536 - len(self.resp.encode(*words, "x" * 10000)) + 10000
        largest = self.resp.encode(*words, "x" * rest)
        self.assertEqual(len(largest), 65536)
        self.resp.socket.sendall(largest * 3)
        for _ in range(3):
            self.assertEqual(self.resp.read(), "OK")
        self.assertIn("too big command", self.error(*words, "x" * (rest + 1)))
        with self.assertRaises(EOFError):
            self.resp.read()

    def test_a_protocol_error_is_answered_and_ends_the_connection(self):
        self.resp.socket.sendall(b"*1\r\n$4\r\nPING\r\n*1\r\n!\r\n*1\r\n$4\r\nPING\r\n")
        self.assertEqual(self.resp.read(), "PONG")
        self.assertIn("Protocol error", str(self.resp.read()))
        with self.assertRaises(EOFError):
            self.resp.read()


if __name__ == "__main__":
    unittest.main()
