"""A polling client as the documents describe it, which knows nothing of Leasehold.

Leases are `poll:lease:<endpoint>` = instance id, SET NX PX; renewed and released by the documents' own scripts; its
heartbeat is `poll:node:<instance>` = 1. Whoever holds an endpoint makes a directory for it and removes it again: if it is
there already, somebody else holds the same endpoint.

usage: plain_client.py PORT DIRECTORY ROUNDS ENDPOINT ...
"""

import os
import socket
import sys
import time
import uuid

RENEW = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end'
RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end'
TTL_MS = "30000"


class Redis:
    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def __call__(self, *words):
        self.stream.write(b"*%d\r\n" % len(words))
        for word in words:
            word = word.encode()
            self.stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.stream.flush()
        return self.answer()

    def answer(self):
        line = self.stream.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2].decode()
        sys.exit("redis said %r" % line)


def main():
    port, directory, rounds, endpoints = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    instance = "%s-%d-%s" % (socket.gethostname(), time.time_ns(), str(uuid.uuid4())[:8])
    redis = Redis(port)
    renew, release = redis("SCRIPT", "LOAD", RENEW), redis("SCRIPT", "LOAD", RELEASE)
    held, refused, place = 0, 0, 0
    deadline = time.monotonic() + 120
    while held < rounds and time.monotonic() < deadline:
        redis("SET", "poll:node:" + instance, "1", "PX", TTL_MS)
        place = (place + 1) % len(endpoints)
        key = "poll:lease:" + endpoints[place]
        if redis("SET", key, instance, "NX", "PX", TTL_MS) != "OK":
            refused += 1
            continue
        os.mkdir(os.path.join(directory, endpoints[place]))
        if redis("EVALSHA", renew, "1", key, instance, TTL_MS) != 1:
            sys.exit("the lease of %s was lost while it was held" % endpoints[place])
        os.rmdir(os.path.join(directory, endpoints[place]))
        if redis("EVALSHA", release, "1", key, instance) != 1:
            sys.exit("the lease of %s was lost while it was held" % endpoints[place])
        held += 1
    print(held, refused)


main()
