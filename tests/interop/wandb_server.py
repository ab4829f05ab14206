"""A stand-in for the server of Weights & Biases: it keeps what the real client sends and answers
the client's questions about runs."""

import gzip
import http.server
import json
import re
import sys
import threading


class Server(http.server.ThreadingHTTPServer):
    """runs: by id, each with its config, its summary and the rows of its history. files: the bytes
    of uploaded files by name, of all runs."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.runs, self.files = {}, {}
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # the client just hangs up
            super().handle_error(request, address)

    def answer(self, question, variables):
        """The data that answers a GraphQL question."""
        name, entity = variables.get("name"), variables.get("entity") or "user"
        place = {"id": "0", "name": variables.get("project"), "entity": {"id": "0", "name": entity}}
        if question == "Viewer":
            return {"viewer": {"id": "0", "entity": "user", "username": "user", "flags": "{}",
                               "teams": {"edges": []}}}
        if question == "ServerFeaturesQuery":
            return {"serverInfo": {"features": []}}
        if question == "RunResumeStatus":
            return {"model": {**place, "bucket": self.resumed(name)}}
        if question == "UpsertBucket":
            run = self.runs.setdefault(name, {"config": {}, "summary": {}, "rows": []})
            if variables.get("config"):
                run["config"] = json.loads(variables["config"])
            for key in ("project", "displayName", "entity"):
                run[key] = variables.get(key) or run.get(key)
            bucket = {"id": "0", "name": name, "displayName": run["displayName"], "project": place,
                      "config": json.dumps(run["config"]), "historyLineCount": len(run["rows"])}
            return {"upsertBucket": {"inserted": not run["rows"], "bucket": bucket}}
        if question == "CreateRunFiles":
            files = [{"name": file, "uploadUrl": f"{self.url}/upload/{file}"}
                     for file in variables["files"]]
            return {"createRunFiles": {"runID": "0", "uploadHeaders": [], "files": files}}
        if question == "ArtifactType":
            return {"project": None}
        if question == "CreateArtifact":  # one that is there already: nothing has to be uploaded
            latest = {"id": "0", "versionIndex": 0}
            artifact = {"id": "0", "state": "COMMITTED",
                        "artifactSequence": {"id": "0", "latestArtifact": latest}}
            return {"createArtifact": {"artifact": artifact}}
        return {}

    def resumed(self, name):
        """The facts that a client needs to continue a run; None if there is no such run."""
        if name not in self.runs:
            return None
        run = self.runs[name]
        return {
            "id": "0", "name": name, "displayName": run["displayName"], "tags": [], "notes": "",
            "summaryMetrics": json.dumps(run["summary"]), "config": json.dumps(run["config"]),
            "historyLineCount": len(run["rows"]), "eventsLineCount": 0, "logLineCount": 0,
            "historyTail": json.dumps([json.dumps(row) for row in run["rows"][-1:]]),
            "eventsTail": "[]", "wandbConfig": json.dumps({"t": 1}),
        }

    def stream(self, run, files):
        """Lines of the history replace those from their offset on."""
        history, summary = files.get("wandb-history.jsonl"), files.get("wandb-summary.json")
        if history:
            del run["rows"][history["offset"]:]
            run["rows"] += [json.loads(line, parse_constant=str) for line in history["content"]]
        if summary:
            run["summary"] = json.loads(summary["content"][-1])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        while self.headers.get("Transfer-Encoding") == "chunked":
            chunk = self.rfile.read(int(self.rfile.readline(), 16))
            self.rfile.readline()
            if not chunk:
                break
            data += chunk
        return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

    def reply(self, answer):
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply({})

    def do_PUT(self):
        data = self.body()
        with self.server.lock:
            self.server.files[self.path[len("/upload/"):]] = data
        self.reply({})

    def do_POST(self):
        data = self.body()
        answer = {}  # for the client's telemetry, too
        with self.server.lock:
            if self.path.endswith("/graphql"):
                asked = json.loads(data)
                question = re.search(r"(?:query|mutation) (\w+)", asked["query"]).group(1)
                answer["data"] = self.server.answer(question, asked.get("variables") or {})
            elif self.path.endswith("/file_stream"):
                run = self.server.runs[self.path.split("/")[-2]]
                self.server.stream(run, json.loads(data).get("files") or {})
        self.reply(answer)
