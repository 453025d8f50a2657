"""A worker's side of the conversation (see workers.py), for the peers' Python.

A worker answers JSON lines on its original standard output; whatever the frameworks print goes
to standard error, so that a stray warning cannot break the protocol:

    start     argv[1] is the configuration as JSON
    ready     {"ready": true, "note": ..., "rss": ...} after imports and warming up
    request   {"do": ...} -> an answer, or {"error": ...} and the end
    request   {"do": "quit"}
"""

import json
import os
import sys
import traceback


def status(field):
    """A field of /proc/self/status in bytes: VmRSS now, VmHWM at its peak."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def serve(start):
    """Runs a worker: `start(config)` gives (what to say when ready, the function that answers)."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**message):
        out.write(json.dumps(message) + "\n")
        out.flush()

    try:
        ready, answer = start(json.loads(sys.argv[1]))
        say(**{"ready": True, "note": "", **ready, "rss": status("VmRSS")})
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] == "quit":
                break
            say(**{**answer(request), "rss": status("VmRSS")})
    except Exception as error:  # the orchestrator reports it as this configuration's failure
        traceback.print_exc()
        say(error=f"{type(error).__name__}: {error}".splitlines()[0][:300])
        sys.exit(1)
