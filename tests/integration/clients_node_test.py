"""node-redis against a running daemon: clients_node_test.py WEIR BUILD."""

import sys
import unittest
from pathlib import Path

from daemon import Daemon
from node_client import run_node_client

BUILD = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)


class NodeRedisTest(unittest.TestCase):
    def test_node_redis_takes_permits(self):
        with Daemon(WEIR) as daemon:
            self.assertEqual(run_node_client("node", BUILD, daemon.resp_port),
                             (0, "node-redis is content\n"))


if __name__ == "__main__":
    unittest.main()
