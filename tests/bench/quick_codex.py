#!/usr/bin/env -S python3 -I -S
"""A stand-in for codex that is as light as can be, so that hundreds of them leave the cores to the worker.

It says what the other stand-in says (recording.py), as bytes made ahead, and finds in what it is sent no more
than it needs: ids, methods, and in the last prompt what to say. Installed by recording.py, run by its path.
"""

import marshal
import os
import select
import sys
import time

with open(__file__ + ".said", "rb") as said:
    SAID = marshal.load(said)
REFUSAL = b'{"error":{"code":-32601,"message":"Method not found"},"id":%(id)b}\n'
#: Histories here are of messages alone.
FIRST_ITEM, NEXT_ITEM, LAST_END = b'"items":[{"type":"message",', b'},{"type":"message",', b"}]}}"
FOREVER_MS = -1


def find(line: bytes, before: bytes, after: bytes) -> bytes:
    """What stands behind the last of one, up to the other."""
    _, found, rest = line.rpartition(before)
    return rest.partition(after)[0] if found else b""


class Process:
    def __init__(self) -> None:
        self.partial: list[bytes] = []
        self.unwritten: list[bytes] = []
        self.count = 0
        #: What fills the places.
        self.now: dict[bytes, bytes] = {}
        self.deltas = self.told = 0
        self.pause_s = self.began_s = 0.0
        self.is_speaking = False

    def serve(self) -> None:
        watch = select.poll()
        watch.register(0, select.POLLIN)
        while True:
            if watch.poll(self.find_wait_ms()):
                data = os.read(0, 1 << 20)
                if not data:
                    return
                self.receive(data)
            if self.is_speaking:
                self.speak()
            self.flush()

    def find_wait_ms(self) -> float:
        if not self.is_speaking:
            return FOREVER_MS
        due_s = self.began_s + self.told * self.pause_s
        return max(0.0, (due_s - time.monotonic()) * 1000)

    def flush(self) -> None:
        """All that there is to say, in one write."""
        view, self.unwritten = memoryview(b"".join(self.unwritten)), []
        while view:
            view = view[os.write(1, view) :]

    def receive(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole, self.partial = b"".join((*self.partial, line)), []
            self.take(whole)
        self.partial.append(rest)

    def take(self, line: bytes) -> None:
        method = line[:80].partition(b'"method":"')[2].partition(b'"')[0].decode()
        self.now[b"id"] = line[:40].partition(b'"id":')[2].partition(b",")[0]
        if method in OWN:
            OWN[method](self, line)
        elif method in SAID:
            self.say(method)
        elif method and self.now[b"id"]:
            self.unwritten.append(REFUSAL % self.now)
        elif b'"result"' in line[:40]:
            self.say("answered")
            self.begin_message()

    def say(self, name: str, times: int = 1) -> None:
        self.unwritten.append(SAID[name] % self.now * times)

    def open_thread(self, line: bytes) -> None:
        self.count += 1
        self.now[b"thread"] = b"01a1f231-aa7d-7040-d5c3-%012x" % self.count
        self.say("thread/start")

    def take_items(self, line: bytes) -> None:
        """Echo them as codex does, and remember what the last one asks for."""
        self.now[b"thread"] = find(line[:200], b'"threadId":"', b'"')
        place = SAID["echo"] % self.now + b'"item":{"id":"msg_0","type":"message",'
        items = line[line.index(FIRST_ITEM) + len(FIRST_ITEM) : -len(LAST_END)].split(NEXT_ITEM)
        self.say("thread/inject_items")
        self.unwritten += [place + item + b"}}}\n" for item in items]
        asked = items[-1]
        self.deltas = int(find(asked, b'\\"times\\": ', b"}").partition(b",")[0] or 1)
        self.pause_s = float(find(asked, b'\\"pause_s\\": ', b"}") or 0)
        self.now[b"query"] = b"x" * int(find(asked, b'\\"argument_bytes\\": ', b"}") or 0)

    def start_turn(self, line: bytes) -> None:
        self.count += 1
        self.now[b"turn"] = b"01a1f231-aa7e-721b-cf85-%012x" % self.count
        self.now[b"hex"] = b"%016x" % self.count
        self.say("turn/start")
        if self.now[b"query"]:
            self.say("call")
        else:
            self.begin_message()

    def interrupt(self, line: bytes) -> None:
        self.is_speaking = False
        self.say("turn/interrupt")

    def begin_message(self) -> None:
        self.is_speaking, self.told, self.began_s = True, 0, time.monotonic()
        self.now[b"text"] = b"word " * self.deltas
        self.say("message")

    def speak(self) -> None:
        """Say what is due."""
        due = self.deltas
        if self.pause_s:
            due = min(int((time.monotonic() - self.began_s) / self.pause_s) + 1, due)
        self.say("delta", due - self.told)
        self.told, self.is_speaking = due, due < self.deltas
        if not self.is_speaking:
            self.say("end")


OWN = {
    "thread/start": Process.open_thread,
    "thread/inject_items": Process.take_items,
    "turn/start": Process.start_turn,
    "turn/interrupt": Process.interrupt,
}

if "app-server" not in sys.argv[1:]:
    os.execv(SAID["stand_in"], [SAID["stand_in"], *sys.argv[1:]])
if SAID["cores"]:  # those that the worker leaves it
    os.sched_setaffinity(0, SAID["cores"])
Process().serve()
