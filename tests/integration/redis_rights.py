"""The rights that the page about Redis gives to the user of weir."""

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "redis.md"


def documented_rights():
    """The rights in the commands of the page."""
    lines = re.findall(r"^\$ redis-cli -p 6379 ACL SETUSER weir (.*)$", PAGE.read_text(), re.M)
    return [word for line in lines for word in shlex.split(line)]
