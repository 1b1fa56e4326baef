"""Stand-in for the functions of pScheduler's module that the plugin uses, by their documented behaviour."""

import datetime
import json
import re
import sys


def json_load(exit_on_error=False):
    return json.load(sys.stdin)


def succeed_json(value):
    json.dump(value, sys.stdout)
    sys.exit(0)


def iso8601_as_timedelta(text):
    found = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?", text)
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def timedelta_as_seconds(delta):
    return delta.total_seconds()


def sleep_until(start):
    return start
