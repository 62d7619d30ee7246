"""Runs a command beside a redis-server of its own: on_redis.py COMMAND…, where REDIS is its address."""

import subprocess
import sys

from redis_server import RedisServer

with RedisServer() as redis:
    sys.exit(subprocess.call([word.replace("REDIS", redis.url) for word in sys.argv[1:]]))
