#!/usr/bin/env python3
"""A program of worker.rollout.engine exec that says what a test wants: exec_peer.py [FAULT [FILE]].

With FILE the fault happens once: the file is made then.
"""

import json
import os
import sys
import time

fault = sys.argv[1] if len(sys.argv) > 1 else ""
if len(sys.argv) > 2:
    if os.path.exists(sys.argv[2]):
        fault = ""
    else:
        open(sys.argv[2], "w").close()
digests = json.loads(os.environ.get("EXEC_PEER_DIGESTS", "null"))
seconds = json.loads(os.environ.get("EXEC_PEER_SECONDS", "null"))


def say(message):
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    asked = json.loads(line)
    if asked["op"] == "reload":
        if fault == "silent":
            time.sleep(60)
        version = "step 0" if fault == "old" else asked["version"]
        loaded = {"version": version, "engine": "peer"}
        if seconds is not None:
            loaded["seconds"] = seconds
        say({"error": "no such model"} if fault == "error" else loaded)
    elif asked["op"] == "digests":
        say({"digests": digests})
    else:
        for request in reversed(asked["requests"]):
            if fault == "dies":
                sys.exit(7)
            if fault == "words":
                say("INFO loading")
            one = {"token_ids": [5] * request["max_tokens"], "finish_reason": "length"}
            if request["logprobs"]:
                one["logprobs"] = [-1.5] * request["max_tokens"]
            samples = [one] * (request["n"] - (1 if fault == "fewer" else 0))
            say({"id": 99 if fault == "other" else request["id"], "samples": samples})
