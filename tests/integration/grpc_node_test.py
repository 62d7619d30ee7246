"""Node's @grpc/grpc-js against the gRPC listener: grpc_node_test.py WEIR SOURCE BUILD."""

import sys
import unittest
from pathlib import Path

from daemon import Daemon
from grpc_messages import RULES
from node_client import run_node_client

BUILD = Path(sys.argv.pop(3))
SOURCE = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)


class GrpcJsTest(unittest.TestCase):
    def test_grpc_js_gets_decisions(self):
        daemon = Daemon(WEIR, "", grpc="127.0.0.1:0", extra="envoy_ratelimit: rules.yaml\n")
        (daemon.folder / "rules.yaml").write_text(RULES)
        with daemon:
            self.assertEqual(run_node_client("node_grpc", BUILD, daemon.grpc_port, SOURCE / "proto"),
                             (0, "grpc-js is content\n"))


if __name__ == "__main__":
    unittest.main()
