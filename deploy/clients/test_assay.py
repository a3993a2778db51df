"""Tests of assay.py: python3 -m unittest test_assay

Those of Gateway need a running one: ASSAY_DIR is its ledger, where the caller's uid is
agent/piper, ASSAY_URL its loopback port and ASSAY_TOKEN_FILE the token for that.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid
from unittest import mock

import assay

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = {"context": {}, "action": "TEST"}


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.spool = os.path.join(self.folder, "spool")
        self.nowhere = os.path.join(self.folder, "none.sock")

    def read(self, name: str) -> bytes:
        with open(os.path.join(self.spool, name), "rb") as f:
            return f.read()

    def queued(self) -> list[str]:
        """The ids in the spool, oldest first."""
        return [name[17:-5] for name in sorted(os.listdir(self.spool)) if name.endswith(".json")]

    def spawn(self, code: str, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", code, *args], cwd=HERE, stdout=subprocess.PIPE, text=True)


EMIT = """
import sys, assay
client = assay.Client(socket=sys.argv[1], spool=sys.argv[2])
for n in range(int(sys.argv[3])):
    print(client.emit("gate.chosen", {"context": {}, "action": "TEST"}).id, flush=True)
"""


class Spool(Folder):
    def client(self, **more: object) -> assay.Client:
        return assay.Client(socket=self.nowhere, spool=self.spool, **more)  # type: ignore[arg-type]

    def test_order_and_bytes(self) -> None:
        events = [assay.encode({"type": "gate.chosen", "data": {**DATA, "note": "é" * n}}) for n in range(12)]
        for event in events:
            answer = self.client().send(event)  # each as another process would
            self.assertEqual((answer.where, answer.id), ("here", json.loads(event)["id"]))
            self.assertIn(self.nowhere, answer.why)
        names = sorted(n for n in os.listdir(self.spool) if n.endswith(".json"))
        kept = [self.read(n) for n in names]
        self.assertEqual(kept, events)
        self.client().send(events[3])
        self.assertEqual(self.queued(), [json.loads(e)["id"] for e in events], "the same event waits once")

    def test_full(self) -> None:
        event = assay.encode({"type": "gate.chosen", "data": DATA})
        client = self.client(limit=2 * len(event))
        client.send(event)
        client.emit("gate.chosen", DATA, source="urn:assay:client")
        third = assay.encode({"type": "gate.chosen", "data": DATA})
        with self.assertRaises(assay.Unavailable) as caught:
            client.send(third)
        self.assertEqual(caught.exception.event, third)
        self.assertIn("is full", caught.exception.why)
        self.assertEqual(len(self.queued()), 2)

    def test_no_disk(self) -> None:
        client = self.client()
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            with self.assertRaises(assay.Unavailable) as caught:
                client.emit("gate.chosen", DATA)
        self.assertIn("No space left", caught.exception.why)
        self.assertEqual(os.listdir(self.spool), ["lock"], "nothing is promised, and nothing is there")
        self.assertIsInstance(client.send(caught.exception.event), assay.Spooled)

    def test_synced_before_named(self) -> None:
        client, calls = self.client(), []
        fsync, rename = os.fsync, os.rename

        def synced(fd: int) -> None:
            calls.append("sync " + os.path.basename(os.readlink(f"/proc/self/fd/{fd}")).split(".")[-1])
            fsync(fd)

        def renamed(old: str, new: str) -> None:
            calls.append("rename")
            rename(old, new)

        with mock.patch("os.fsync", synced), mock.patch("os.rename", renamed):
            client.emit("gate.chosen", DATA)
        self.assertEqual(calls, ["sync part", "rename", "sync spool"])

    def test_kill(self) -> None:
        told: list[str] = []
        for stop in (1, 7, 20):
            child = self.spawn(EMIT, self.nowhere, self.spool, "100000")
            assert child.stdout is not None
            told += [child.stdout.readline().strip() for _ in range(stop)]
            child.send_signal(signal.SIGKILL)
            told += child.stdout.read().split("\n")[:-1]
            child.wait()
            child.stdout.close()
        queued = self.queued()
        self.assertEqual([id for id in queued if id in set(told)], told, "what was told spooled is there, in order")
        self.assertLessEqual(len(queued), len(told) + 3, "each process may have kept one that it could not tell of")
        with open(os.path.join(self.spool, f"{999:016d}-{uuid.uuid4()}.part"), "w", encoding="ascii") as f:
            f.write('{"spec')
        self.client().emit("gate.chosen", DATA)
        self.assertEqual([n for n in os.listdir(self.spool) if n.endswith(".part")], [], "a crash's rest is removed")

    def test_processes_share(self) -> None:
        children = [self.spawn(EMIT, self.nowhere, self.spool, "40") for _ in range(3)]
        told = [child.communicate()[0].split() for child in children]
        queued = self.queued()
        self.assertEqual(len(queued), 120)
        for ids in told:
            self.assertEqual([id for id in queued if id in set(ids)], ids)
        names = [n for n in os.listdir(self.spool) if n.endswith(".json")]
        self.assertEqual(len({n[:16] for n in names}), 120, "each has a number of its own")

    def test_silent_gateway_is_bounded(self) -> None:
        """It accepts and never answers."""
        door = socket.socket(socket.AF_UNIX)
        self.addCleanup(door.close)
        door.bind(self.nowhere)
        door.listen()
        answer = self.client(timeout=0.2).emit("gate.chosen", DATA)
        self.assertEqual(answer.where, "here")
        with self.assertRaises(assay.Unavailable):
            assay.Client(socket=self.nowhere, timeout=0.2).emit("gate.chosen", DATA)


class Events(unittest.TestCase):
    def test_encode(self) -> None:
        event = json.loads(assay.encode({"type": "gate.chosen", "data": DATA, "subject": "x"}))
        self.assertEqual(uuid.UUID(event["id"]).version, 7)
        self.assertEqual((event["dataschema"], event["subject"]), ("urn:assay:gate.chosen:1", "x"))
        self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        for bad in (float("nan"), {1, 2}, "\ud800"):
            with self.assertRaises((ValueError, TypeError)):
                assay.encode({"type": "gate.chosen", "data": {"action": bad}})

    def test_ids(self) -> None:
        client = assay.Client(socket="/nowhere")
        for bad in (b"[]", b"{}", b'{"id":7}', b'{"id":"../x"}', b'{"id":""}', b"", b"[" * 100_000):
            with self.assertRaises(ValueError, msg=bad[:20]):
                client.send(bad)

    def test_too_large(self) -> None:
        with self.assertRaises(assay.Refused) as caught:
            assay.Client(socket="/nowhere").emit("gate.chosen", {**DATA, "note": "x" * assay.MAX_EVENT})
        self.assertEqual(caught.exception.code, "too_large")

    def test_settings(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop("ASSAY_DIR", None)
            for wrong in ({}, {"url": "http://127.0.0.1:1"}, {"socket": "s", "token": "t"}, {"socket": "s", "url": "http://h:1", "token": "t"},
                          {"url": "https://h:1", "token": "t"}, {"url": "http://h:1/v1", "token": "t"}):
                with self.assertRaises(ValueError, msg=wrong):
                    assay.Client(**wrong)

    def test_answers(self) -> None:
        receipt = {"seq": 7, "leaf": "ab", "recorded_at": "2026-01-01T00:00:00Z"}
        refusal = {"code": "conflict", "pointer": "/id", "message": "m", "retry_after": None}
        self.assertEqual(assay._read("i", 200, json.dumps(receipt).encode()).done, assay.Receipt("i", 7, "ab", "2026-01-01T00:00:00Z"))
        del receipt["seq"]
        self.assertIsNone(assay._read("i", 200, json.dumps(receipt).encode()).done.seq)  # type: ignore[union-attr]
        self.assertEqual(assay._read("i", 202, b'{"spooled":true,"id":"i"}').done.where, "gateway")  # type: ignore[union-attr]
        self.assertEqual(assay._read("i", 409, json.dumps({"error": refusal}).encode()).refused.pointer, "/id")  # type: ignore[union-attr]
        self.assertEqual(assay._read("i", 503, json.dumps({"error": {**refusal, "retry_after": 0.5}}).encode()).retry_after, 0.5)
        for status, body in ((200, b"{}"), (200, b"[]"), (202, b'{"spooled":false}'), (404, b"page not found"), (500, b""), (503, b'{"error":7}'),
                             (503, json.dumps({"error": {**refusal, "retry_after": "soon"}}).encode()),
                             (503, json.dumps({"error": {**refusal, "retry_after": float("inf")}}).encode())):
            answer = assay._read("i", status, body)
            self.assertEqual((answer.done, answer.refused), (None, None), body)


class Forgetful(threading.Thread):
    """A door before the gateway's that passes requests on, and loses the first answers."""

    def __init__(self, path: str, gateway: str, lose: int) -> None:
        super().__init__()
        self.gateway, self.lose, self.heard = gateway, lose, []
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(path)
        self.door.listen()

    def run(self) -> None:
        while True:
            caller, _ = self.door.accept()
            with caller, socket.socket(socket.AF_UNIX) as behind:
                request = b""
                while not request.endswith(b"}}"):  # the end of an event
                    part = caller.recv(1 << 16)
                    if not part:  # close
                        return
                    request += part
                self.heard.append(request)
                behind.connect(self.gateway)
                behind.sendall(request)
                answer = behind.recv(1 << 16)
                if len(self.heard) > self.lose:
                    caller.sendall(answer)

    def close(self, path: str) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(path)
        self.join()
        self.door.close()


@unittest.skipUnless("ASSAY_URL" in os.environ, "no gateway: see above")
class Gateway(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.gateway = os.path.join(os.environ["ASSAY_DIR"], "run", "gateway.sock")
        with open(os.environ["ASSAY_TOKEN_FILE"], encoding="ascii") as f:
            self.token = f.read().strip()

    def test_receipt(self) -> None:
        event = assay.encode({"type": "gate.chosen", "data": DATA})
        first = assay.Client().send(event)
        self.assertRegex(first.leaf, "^[0-9a-f]{64}$")
        self.assertEqual(first.id, json.loads(event)["id"])
        over_tcp = assay.Client(url=os.environ["ASSAY_URL"], token=self.token)
        self.assertEqual(over_tcp.send(event), first, "the same bytes, the same receipt")
        with self.assertRaises(assay.Refused) as caught:
            assay.Client(spool=self.spool).emit("gate.chosen", {**DATA, "action": "KNOW"}, id=first.id)
        self.assertEqual(caught.exception.code, "conflict")
        self.assertEqual(self.queued(), [], "a refusal is not spooled")

    def test_lost_answers(self) -> None:
        path = os.path.join(self.folder, "door.sock")
        for spool in (None, self.spool):
            with self.subTest(spool=spool):
                door = Forgetful(path, self.gateway, lose=2)
                door.start()
                client = assay.Client(socket=path, spool=spool)
                event = assay.encode({"type": "gate.chosen", "data": DATA})
                answer = client.send(event)
                while isinstance(answer, assay.Spooled):
                    answer = client.send(event)
                door.close(path)
                os.unlink(path)
                self.assertEqual(len(set(door.heard)), 1, "the same bytes each time")
                self.assertGreaterEqual(len(door.heard), 3)
                self.assertEqual(assay.Client().send(event), answer)
        self.assertEqual(self.queued(), [])

    def test_spool_is_delivered_in_order(self) -> None:
        away = assay.Client(socket=self.nowhere, spool=self.spool)
        made = [assay.encode({"type": "gate.chosen", "data": DATA}) for _ in range(3)]
        bad = assay.encode({"type": "gate.chosen", "data": {"context": {}, "action": "PERHAPS"}})
        for event in (made[0], bad, made[1]):
            self.assertIsInstance(away.send(event), assay.Spooled)
        here = assay.Client(spool=self.spool)
        with self.assertLogs("assay", "WARNING") as log:
            last = here.send(made[2])
        self.assertIn("/data/action", log.output[0])
        self.assertEqual(self.queued(), [])
        seqs = [here.send(event).seq for event in made]
        self.assertEqual(seqs, sorted(seqs))
        self.assertEqual(seqs[-1], last.seq)
        aside = [name for name in os.listdir(self.spool) if name.endswith(".refused")]
        self.assertEqual(len(aside), 1, "what is refused for good is kept")
        self.assertEqual(self.read(aside[0]), bad)
        self.assertEqual(here.flush(), assay.Flushed(0, [], 0, None))

    def test_flush_tells(self) -> None:
        away = assay.Client(socket=self.nowhere, spool=self.spool)
        away.emit("gate.chosen", DATA)
        away.emit("gate.chosen", {**DATA, "action": "PERHAPS"})
        stuck = away.flush()
        self.assertEqual((stuck.delivered, stuck.left), (0, 2))
        self.assertIn(self.nowhere, stuck.why or "")
        done = assay.Client(spool=self.spool).flush()
        self.assertEqual((done.delivered, done.left, [r.pointer for r in done.refused]), (1, 0, ["/data/action"]))

    def test_unknown_caller_loses_nothing(self) -> None:
        """A wrong token is a fault of the setting: what is spooled waits for the right one."""
        wrong = assay.Client(url=os.environ["ASSAY_URL"], token="f" * 40, spool=self.spool)
        for _ in range(2):
            self.assertIn("unknown_caller", wrong.emit("gate.chosen", DATA).why)
        with self.assertRaises(assay.Refused):
            assay.Client(url=os.environ["ASSAY_URL"], token="f" * 40).emit("gate.chosen", DATA)
        done = assay.Client(url=os.environ["ASSAY_URL"], token=self.token, spool=self.spool).flush()
        self.assertEqual((done.delivered, done.left), (2, 0))


if __name__ == "__main__":
    unittest.main()
