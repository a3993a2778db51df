#!/usr/bin/env python3
"""Publish events to an assay ledger through its gateway.

One file, Python 3.9 or newer, nothing but the standard library. Copy it.

    import assay

    client = assay.Client(spool="piper-spool")       # $ASSAY_DIR/run/gateway.sock
    answer = client.emit("gate.chosen", {"context": {}, "action": "TEST"})

The answer is a Receipt (fsynced and chained at that position) or Spooled (on a
disk, to be delivered). Refused is raised for what the ledger will never take,
Unavailable for what neither the ledger nor a spool has.

An event is made once and keeps its id and its bytes: every attempt sends the
same, which the ledger takes once. What cannot be delivered goes into the spool,
and whatever is in the spool goes first, so that events arrive in order. No
thread works behind your back: the spool is delivered by emit, send and flush.

    python3 assay.py emit < event.json               # one event, or one a line
    python3 assay.py flush                           # deliver what is spooled
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import http.client
import json
import logging
import math
import os
import re
import secrets
import socket
import sys
import time
import urllib.parse
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Iterator, NamedTuple

__all__ = ["Client", "Flushed", "Receipt", "Refused", "Spooled", "Unavailable", "encode"]

MAX_EVENT = 64_000  # bytes of an event

_log = logging.getLogger("assay")

# Refusals of the caller or of the request, not of the event: once that is mended, the
# same bytes may be taken, so that a spool keeps them.
_NOT_THE_EVENT = {"unknown_caller", "forbidden", "unsupported_media_type", "incomplete_body", "bad_body"}


@dataclass(frozen=True)
class Receipt:
    """The ledger has the event, fsynced and chained.

    seq is its record's number, None where the caller may not know it; leaf is the
    record's hash in hex, which proofs start from; recorded_at is ledger time.
    """

    id: str
    seq: int | None
    leaf: str
    recorded_at: str


@dataclass(frozen=True)
class Spooled:
    """The event is on a disk and will be delivered in order; the ledger may yet refuse it.

    where is "gateway" or "here"; why says what kept it from the ledger.
    """

    id: str
    where: str
    why: str


class Refused(Exception):
    """The ledger will never take these bytes.

    code is one of the table in docs/clients.md, pointer a JSON Pointer into the
    event ("" is all of it), id the event's.
    """

    def __init__(self, id: str, code: str, pointer: str, message: str) -> None:
        super().__init__(f"{code} {pointer}: {message}" if pointer else f"{code}: {message}")
        self.id, self.code, self.pointer, self.message = id, code, pointer, message


class Unavailable(Exception):
    """Neither the ledger nor a spool has the event: send the same bytes (event) again."""

    def __init__(self, event: bytes, why: str) -> None:
        super().__init__(why)
        self.event, self.why = event, why


@dataclass(frozen=True)
class Flushed:
    """What flush did: events delivered, refused for good, and left in the spool; why names what keeps those."""

    delivered: int
    refused: list[Refused]
    left: int
    why: str | None


class Client:
    """Publishes to one gateway, as the principal that the gateway knows the caller by.

    socket   path of the gateway's Unix socket; default $ASSAY_DIR/run/gateway.sock
    url      instead of it the loopback port, such as http://127.0.0.1:7070, which
             needs the token that the gateway knows the caller by
    source   the events' source: a URI that says what made them
    spool    directory for what cannot be delivered now; processes may share it, but
             only those of one principal. Without it, emit and send try until timeout
    limit    bytes of events that the spool may hold
    timeout  seconds that emit, send and flush may take; waiting for one answer counts

    A client holds nothing open and may be used from several threads.
    """

    def __init__(
        self,
        *,
        socket: str | os.PathLike[str] | None = None,
        url: str | None = None,
        token: str | None = None,
        source: str = "urn:assay:client",
        spool: str | os.PathLike[str] | None = None,
        limit: int = 8 << 20,
        timeout: float = 10.0,
    ) -> None:
        if url is None:
            if token is not None:
                raise ValueError("a token is for url; on the socket the kernel says who calls")
            if socket is None:
                if not os.environ.get("ASSAY_DIR"):
                    raise ValueError("say socket or url, or set ASSAY_DIR")
                socket = os.path.join(os.environ["ASSAY_DIR"], "run", "gateway.sock")
        elif socket is not None or token is None:
            raise ValueError("url needs a token, and no socket")
        self._door = _Door(None if socket is None else os.fspath(socket), url, token)
        self._source, self._timeout = source, timeout
        self._spool = None if spool is None else _Spool(os.fspath(spool), limit)

    def emit(self, type: str, data: dict[str, Any], *, version: int = 1, **attributes: Any) -> Receipt | Spooled:
        """Makes an event of a type and publishes it.

        attributes are members of the envelope, such as id, time, source, subject,
        correlationid. Raises as send does, and ValueError for what is no JSON.
        """
        event = {"type": type, "dataschema": f"urn:assay:{type}:{version}", "source": self._source, **attributes, "data": data}
        return self.send(encode(event))

    def send(self, event: bytes) -> Receipt | Spooled:
        """Publishes an event by its bytes, which encode makes; the same bytes again are the same event.

        Raises Refused and Unavailable.
        """
        id = _id(event)
        if len(event) > MAX_EVENT:
            raise Refused(id, "too_large", "", f"{len(event)} bytes; an event has at most {MAX_EVENT}: put content into a blob")
        end = time.monotonic() + self._timeout
        if self._spool is None:
            return self._try(id, event, end)
        why = self._drain(end).why
        if why is None:
            answer = self._door.ask(event, end)
            if answer.refused is None or answer.refused.code not in _NOT_THE_EVENT:
                if answer.done is not None:
                    return answer.done
                if answer.refused is not None:
                    raise answer.refused
            why = answer.why
        self._spool.append(id, event, why)
        return Spooled(id, "here", why)

    def flush(self) -> Flushed:
        """Delivers what is spooled, in order, until it is empty, stuck or out of time.

        What the ledger refuses for good is kept beside the queue as NUMBER-ID.refused,
        counts toward limit, and is yours to look at and remove.
        """
        return Flushed(0, [], 0, None) if self._spool is None else self._drain(time.monotonic() + self._timeout)

    def _try(self, id: str, event: bytes, end: float) -> Receipt | Spooled:
        """Without a spool: the same bytes until there is an answer or the time is over."""
        attempt = 0
        while True:
            attempt += 1
            answer = self._door.ask(event, end)
            if answer.done is not None:
                return answer.done
            if answer.refused is not None:
                raise answer.refused
            wait = min(0.1 * 2**attempt, 2.0) if answer.retry_after is None else answer.retry_after
            if time.monotonic() + wait >= end:
                raise Unavailable(event, answer.why)
            time.sleep(wait)

    def _drain(self, end: float) -> Flushed:
        """One event after the other: the next goes out when the one before it has its answer.

        Two processes may do so at once. Each sends in order, and the ledger answers what
        it has already with the first receipt.
        """
        assert self._spool is not None
        delivered, refused = 0, []
        queue = self._spool.queue()
        for n, name in enumerate(queue):
            event = self._spool.read(name)
            if event is None:  # another process has delivered it
                continue
            answer = self._door.ask(event, end)
            if answer.refused is not None and answer.refused.code not in _NOT_THE_EVENT:
                _log.warning("a spooled event is refused: %s: %s", name, answer.refused)
                self._spool.refuse(name)
                refused.append(answer.refused)
            elif answer.done is not None:
                self._spool.remove(name)
                delivered += 1
            else:
                return Flushed(delivered, refused, len(queue) - n, answer.why)
        return Flushed(delivered, refused, 0, None)


def encode(event: dict[str, Any]) -> bytes:
    """The bytes of an event, with the members of the envelope that it lacks; ValueError for what is no JSON."""
    defaults = {
        "specversion": "1.0",
        "id": _uuid7(),
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "source": "urn:assay:client",
    }
    if isinstance(event.get("type"), str):
        defaults["dataschema"] = f"urn:assay:{event['type']}:1"
    return json.dumps({**defaults, **event}, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _uuid7() -> str:
    n = int(time.time() * 1000) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    h = f"{n:032x}"
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def _id(event: bytes) -> str:
    try:
        id = json.loads(event)["id"]
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise ValueError("an event is a JSON object with an id") from err
    if not isinstance(id, str) or not 0 < len(id) <= 64 or not set(id) <= set("0123456789abcdef-"):
        raise ValueError("an event's id is a lower-case UUID")
    return id


class _Answer(NamedTuple):
    """What the gateway said of an event: it is done, refused for good, or to be sent again."""

    done: Receipt | Spooled | None = None
    refused: Refused | None = None
    why: str = ""
    retry_after: float | None = None  # seconds; None: it did not say


class _Door:
    """The gateway. Each request has a connection of its own."""

    def __init__(self, path: str | None, url: str | None, token: str | None) -> None:
        self.path, self.name, self.address = path, path or url, ("gateway", 80)
        self.headers = {"Content-Type": "application/cloudevents+json"}
        if url is not None:
            at = urllib.parse.urlsplit(url)
            if at.scheme != "http" or not at.hostname or at.path not in ("", "/") or at.query:
                raise ValueError("url is http://HOST:PORT, without a path")
            self.address = (at.hostname, at.port or 80)
            self.headers["Authorization"] = f"Bearer {token}"

    def ask(self, event: bytes, end: float) -> _Answer:
        """Sends the bytes once; end is when, on the monotonic clock, an answer comes too late."""
        left = end - time.monotonic()
        if left <= 0:
            return _Answer(why="out of time")
        connection = http.client.HTTPConnection(*self.address, timeout=left)
        try:
            if self.path is not None:
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.settimeout(left)
                connection.sock.connect(self.path)
            connection.request("POST", "/v1/events", event, self.headers)
            response = connection.getresponse()
            return _read(_id(event), response.status, response.read(1 << 20))
        except (OSError, http.client.HTTPException) as err:
            return _Answer(why=f"no answer from {self.name}: {err or type(err).__name__}")
        finally:
            connection.close()


def _read(id: str, status: int, body: bytes) -> _Answer:
    try:
        said = json.loads(body)
        if status == 200:
            return _Answer(done=Receipt(id, said.get("seq"), said["leaf"], said["recorded_at"]))
        if status == 202 and said["spooled"] is True:
            return _Answer(done=Spooled(id, "gateway", "the ledger does not answer the gateway"))
        error = said["error"]
        refused = Refused(id, error["code"], error["pointer"], error["message"])
        after = error["retry_after"]
        if after is None:
            return _Answer(refused=refused, why=str(refused))
        if math.isfinite(after) and after >= 0:
            return _Answer(why=str(refused), retry_after=float(after))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return _Answer(why=f"HTTP {status}: not an answer of the gateway")


class _Spool:
    """A queue of events in a directory: a file each, NUMBER-ID.json.

    A file is synced before it gets its name, and the name before append returns, so
    that a crash leaves an event whole or not at all. Numbers rise while anything is
    queued, and the id in it keeps a name from ever meaning another event, so that a
    process may remove what it has delivered without the lock.
    """

    _name = re.compile(r"(\d{16})-([0-9a-f-]+)\.(json|refused)")

    def __init__(self, path: str, limit: int) -> None:
        self.path, self.limit = path, limit
        if not os.path.isdir(path):
            os.makedirs(path, mode=0o700, exist_ok=True)
            _sync(os.path.dirname(os.path.abspath(path)))

    def queue(self) -> list[str]:
        return sorted(name for name in os.listdir(self.path) if self._name.fullmatch(name) and name.endswith(".json"))

    def read(self, name: str) -> bytes | None:
        try:
            with open(os.path.join(self.path, name), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return None

    def append(self, id: str, event: bytes, why: str) -> None:
        """Returns once the event is on the disk; Unavailable where there is no room for it."""
        try:
            with self._locked():
                number, size = 1, 0
                for name in os.listdir(self.path):
                    if name.endswith(".part"):  # a crash's: nobody else writes while we hold the lock
                        self.remove(name)
                    elif m := self._name.fullmatch(name):
                        number = max(number, int(m[1]) + 1)
                        size += self._size(name)
                        if m[2] == id and m[3] == "json" and self.read(name) == event:
                            return  # it waits already
                if size + len(event) > self.limit:
                    raise Unavailable(event, f"{why}; and the spool {self.path} is full")
                self._write(f"{number:016d}-{id}", event)
        except OSError as err:
            raise Unavailable(event, f"{why}; and the spool {self.path}: {err}") from err

    def refuse(self, name: str) -> None:
        self._move(name, name[: -len(".json")] + ".refused")

    def remove(self, name: str) -> None:
        """No sync: an event that a crash brings back is sent again, and taken once."""
        try:
            os.unlink(os.path.join(self.path, name))
        except FileNotFoundError:
            pass

    def _size(self, name: str) -> int:
        try:
            return os.stat(os.path.join(self.path, name)).st_size
        except FileNotFoundError:
            return 0

    def _write(self, name: str, event: bytes) -> None:
        fd = os.open(os.path.join(self.path, name + ".part"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as f:
                f.write(event)
                f.flush()
                os.fsync(f.fileno())
            self._move(name + ".part", name + ".json")
        except BaseException:
            self.remove(name + ".part")
            raise
        _sync(self.path)

    def _move(self, old: str, new: str) -> None:
        try:
            os.rename(os.path.join(self.path, old), os.path.join(self.path, new))
        except FileNotFoundError:  # another process was first
            pass

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time; the lock is held for a write alone, never for a request."""
        fd = os.open(os.path.join(self.path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _sync(directory: str) -> None:
    """Makes the names of a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def main(argv: list[str] | None = None) -> int:
    """The command: 0 all is recorded or spooled; 1 something was refused; 2 usage; 3 something is nowhere but in your input."""
    parser = argparse.ArgumentParser(prog="assay.py", description="Publish events to an assay ledger through its gateway.")
    door = argparse.ArgumentParser(add_help=False)
    where = door.add_mutually_exclusive_group()
    where.add_argument("--socket", metavar="PATH", help="the gateway's socket; default: $ASSAY_DIR/run/gateway.sock")
    where.add_argument("--url", help="the gateway's loopback port, such as http://127.0.0.1:7070")
    door.add_argument("--token-file", metavar="FILE", help="file with the token, for --url")
    door.add_argument("--spool", metavar="DIR", help="keep there what cannot be delivered now; for flush it is needed")
    door.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS", help="for each event; default: 10")
    commands = parser.add_subparsers(dest="command", required=True, metavar="emit|flush")
    emit = commands.add_parser("emit", parents=[door], help="publish events from stdin: one, or one a line")
    emit.add_argument("--source", default="urn:assay:client", help="source of events that name none; default: urn:assay:client")
    commands.add_parser("flush", parents=[door], help="deliver what is spooled")
    args = parser.parse_args(argv)
    try:
        if args.command == "flush" and args.spool is None:
            raise ValueError("flush needs --spool")
        token = None
        if args.token_file is not None:
            with open(args.token_file, encoding="ascii") as f:
                token = f.read().strip()
        client = Client(socket=args.socket, url=args.url, token=token, spool=args.spool, timeout=args.timeout)
    except (ValueError, OSError) as err:
        parser.error(str(err))
    if args.command == "flush":
        done = client.flush()
        _print({"delivered": done.delivered, "refused": [_error(r) for r in done.refused], "left": done.left, "why": done.why})
        return 1 if done.refused else 3 if done.left else 0
    code = 0
    for event in _events(sys.stdin.buffer.read()):
        code = max(code, _emit(client, args.source, event))
    return code


def _emit(client: Client, source: str, event: bytes) -> int:
    """Publishes one event of the input and prints its answer."""
    try:
        made = json.loads(event)
        if not isinstance(made, dict):
            raise ValueError("an event is a JSON object")
        if not {"specversion", "id", "time", "source", "dataschema"} <= made.keys():
            event = encode({"source": source, **made})
        answer = client.send(event)
    except Refused as err:
        _print(_error(err))
        return 1
    except Unavailable as err:  # with the bytes, since the id may have been made here
        _print({"error": {"code": "unavailable", "pointer": "", "message": err.why}, "event": err.event.decode()})
        return 3
    except (ValueError, RecursionError) as err:
        _print({"error": {"code": "bad_event", "pointer": "", "message": str(err)}})
        return 1
    _print({"spooled": True, **asdict(answer)} if isinstance(answer, Spooled) else asdict(answer))
    return 0


def _events(text: bytes) -> list[bytes]:
    """The input as one event, however printed, or as an event a line."""
    try:
        json.loads(text)
        return [text.strip()]
    except (ValueError, RecursionError):
        return [line for line in (line.strip() for line in text.split(b"\n")) if line]


def _error(r: Refused) -> dict[str, Any]:
    return {"id": r.id, "error": {"code": r.code, "pointer": r.pointer, "message": r.message}}


def _print(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
