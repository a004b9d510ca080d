"""Engines of a test job on this machine, without agents: ranks find them by the environment that `environment` gives."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

#: Any key will do on loopback.
_KEY = "5261696c796172642074657374206b65792c206f66206e6f2073656372657420"
#: Longest time until engines listen, and until they are connected, in seconds.
_PATIENCE = 20


class Job:
    """The engines of a job whose rank r is on server `servers[r]`, with so many rails between the servers."""

    def __init__(self, program, servers, rails, library=None):
        self._servers, self._library = list(servers), library
        self._room = tempfile.mkdtemp(prefix="rail-")
        self._engines = []
        try:
            for node in range(max(servers) + 1):
                self._engines.append(self._start(program, node, rails))
            self._connect()
        except BaseException:
            self.stop()
            raise

    def environment(self, rank):
        """What the environment of a rank says."""
        node = self._servers[rank]
        found = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(self._servers)),
            "LOCAL_RANK": str(self._servers[:rank].count(node)),
            "RAIL_ENGINE_SOCKET": self._path(f"engine{node}"),
            "RAIL_JOB_UID": "uid-1",
        }
        return found | ({"RAIL_LIBRARY": self._library} if self._library else {})

    def stop(self):
        """Ends the engines."""
        for engine in self._engines:
            # The end of its input ends an engine; one that does not listen is killed.
            engine.stdin.close()
        for engine in self._engines:
            try:
                engine.wait(5)
            except subprocess.TimeoutExpired:
                engine.kill()
                engine.wait()
        self._engines = []
        shutil.rmtree(self._room, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _path(self, name):
        return os.path.join(self._room, name)

    def _start(self, program, node, rails):
        nodes = max(self._servers) + 1
        config = {
            "job": "test/job",
            "uid": "uid-1",
            "attempt": 1,
            "epoch": 1,
            "node": node,
            "nodes": [f"n{each}" for each in range(nodes)],
            "ranks": self._servers,
            "rails": [
                {"rail": rail, "device": f"rail{rail}", "address": f"127.0.{rail + 1}.{node + 1}"} for rail in range(rails)
            ],
            "socket": self._path(f"engine{node}"),
            "control": self._path(f"control{node}"),
        }
        with open(self._path(f"{node}.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        with open(self._path(f"{node}.log"), "wb") as log:
            command = [program, "run", "--config", self._path(f"{node}.json")]
            engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
        engine.stdin.write(f"{_KEY}\n".encode())
        engine.stdin.flush()
        return engine

    def _ask(self, node, request):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(2 * _PATIENCE)
            stream.connect(self._path(f"control{node}"))
            stream.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(stream.makefile("r", encoding="utf-8").readline())

    def _endpoints(self, node):
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._ask(node, {"op": "status"})["endpoints"]
            except (OSError, ValueError) as error:
                if time.monotonic() > until or self._engines[node].poll() is not None:
                    with open(self._path(f"{node}.log"), encoding="utf-8", errors="replace") as log:
                        raise RuntimeError(f"engine {node} does not listen: {error}: {log.read()[-2000:]}") from error
                time.sleep(0.005)

    def _connect(self):
        endpoints = [self._endpoints(node) for node in range(len(self._engines))]
        replies = [None] * len(endpoints)

        def connect(node):
            peers = [{"node": other, "endpoints": each} for other, each in enumerate(endpoints) if other != node]
            replies[node] = self._ask(node, {"op": "connect", "peers": peers})

        threads = [threading.Thread(target=connect, args=(node,)) for node in range(len(endpoints))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if any(reply != {"ok": True} for reply in replies):
            raise RuntimeError(f"engines cannot connect: {replies}")
