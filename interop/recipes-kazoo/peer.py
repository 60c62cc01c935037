"""Kazoo's recipes behind lines of text: peer.py HOST:PORT TIMEOUT_MS. recipes-peer/src/main.rs says what they are."""

import sys
import threading
import time

from kazoo.client import KazooClient

held = {}
speaking = threading.Lock()


def say(line):
    with speaking:
        print(line, flush=True)


def lock_of(client, kind, path, rest):
    if kind == "mutex":
        return client.Lock(path, "kazoo")
    if kind == "read":
        return client.ReadLock(path, "kazoo")
    if kind == "write":
        return client.WriteLock(path, "kazoo")
    if kind == "semaphore":
        return client.Semaphore(path, "kazoo", max_leases=int(rest[0]))
    raise ValueError(f"no such lock: {kind}")


class Term:
    """Leadership that lasts until it is released."""

    def __init__(self, client, path, identifier):
        self.begun, self.stop = threading.Event(), threading.Event()
        election = client.Election(path, identifier)
        self.thread = threading.Thread(target=election.run, args=[self.work], daemon=True)
        self.thread.start()
        self.begun.wait()

    def work(self):
        self.begun.set()
        self.stop.wait()

    def release(self):
        self.stop.set()
        self.thread.join()


def visit(client, room, limit, name):
    own = client.create(f"{room}/{name}-", ephemeral=True, sequence=True)
    most = 0
    for _ in range(2):
        names = client.get_children(room)
        assert len(names) <= limit, f"too many at once: {names}"
        assert len(names) == 1 or not any(one.startswith("w-") for one in names), f"a writer is not alone: {names}"
        most = max(most, len(names))
        time.sleep(0.002)
    client.delete(own)
    return most


def contend(client, kind, path, room, rounds, limit, name):
    most = 0
    for _ in range(int(rounds)):
        lock = lock_of(client, kind, path, [limit])
        assert lock.acquire()
        try:
            inside = {"write": "w", "read": "r"}.get(kind, name)
            most = max(most, visit(client, room, int(limit), inside))
            if kind in ("mutex", "write"):
                data, stat = client.get(room + "-log")
                client.set(room + "-log", data + name.encode(), version=stat.version)
        finally:
            lock.release()
    return most


def queue_of(client, order, path):
    return client.LockingQueue(path) if order == "locking" else client.Queue(path)


def pop(client, order, path):
    queue = queue_of(client, order, path)
    while True:
        item = queue.get()
        if item is not None:
            return item.decode()
        # It does not wait by itself.
        time.sleep(0.01)


def lease(client, order, path):
    queue = queue_of(client, order, path)
    item = queue.get()
    assert queue.consume()
    return item.decode()


def carry_out(client, verb, words):
    match [verb, *words]:
        case ["acquire", handle, "election", path, identifier]:
            held[handle] = Term(client, path, identifier)
        case ["acquire", handle, kind, path, *rest]:
            lock = lock_of(client, kind, path, rest)
            assert lock.acquire()
            held[handle] = lock
        case ["try", handle, kind, path, *rest]:
            lock = lock_of(client, kind, path, rest)
            if not lock.acquire(blocking=False):
                return "no"
            held[handle] = lock
            return "yes"
        case ["release", handle]:
            one = held.pop(handle)
            (one.leave if hasattr(one, "leave") else one.release)()
        case ["contend", *rest]:
            return contend(client, *rest)
        case ["make", path]:
            client.create(path)
        case ["read", path]:
            return client.get(path)[0].decode()
        case ["candidates", path]:
            return ",".join(client.Election(path).contenders())
        case ["enter", handle, path, members]:
            barrier = client.DoubleBarrier(path, int(members))
            barrier.enter()
            assert barrier.participating
            held[handle] = barrier
        case ["pass", path, members]:
            barrier = client.DoubleBarrier(path, int(members))
            # Names are random; a member whose name is not the lowest leaves at once.
            barrier.node_name = "f" * 32
            barrier.create_path = f"{barrier.path}/{barrier.node_name}"
            barrier.enter()
            barrier.leave()
        case ["children", path]:
            return ",".join(client.get_children(path)) if client.exists(path) else ""
        case ["changes", path]:
            return client.exists(path).cversion
        case ["lock", handle, path]:
            held[handle] = client.LockingQueue(path)
            assert held[handle].get() is not None
        case ["raise", path]:
            client.Barrier(path).create()
        case ["lower", path]:
            client.Barrier(path).remove()
        case ["wait", path]:
            assert client.Barrier(path).wait()
        case ["push", order, path, item]:
            queue_of(client, order, path).put(item.encode())
        case ["push", order, path, item, priority]:
            queue_of(client, order, path).put(item.encode(), int(priority))
        case ["pop", order, path]:
            return pop(client, order, path)
        case ["lease", order, path]:
            return lease(client, order, path)
        case ["join", handle, path, identifier]:
            held[handle] = client.Party(path, identifier)
            held[handle].join()
        case ["members", path]:
            return ",".join(sorted(client.Party(path)))
        case other:
            raise ValueError(f"no such verb: {other}")
    return ""


def answer(client, line):
    number, verb, *words = line.split(" ")
    try:
        say(f"{number} ok {carry_out(client, verb, words)}")
    except Exception as failure:  # whatever it is, it is the answer
        say(f"{number} error {type(failure).__name__} {str(failure)}".replace("\n", " "))


def main():
    client = KazooClient(hosts=sys.argv[1], timeout=int(sys.argv[2]) / 1000)
    client.start()
    say("0 ok ready")
    for line in sys.stdin:
        threading.Thread(target=answer, args=[client, line.rstrip("\n")], daemon=True).start()


main()
