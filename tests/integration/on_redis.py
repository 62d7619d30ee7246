"""Runs a command with a private redis-server: on_redis.py COMMAND…, where REDIS is replaced by its
address."""

import subprocess
import sys

from redis_server import RedisServer

with RedisServer() as redis:
    sys.exit(subprocess.call([word.replace("REDIS", redis.url) for word in sys.argv[1:]]))
