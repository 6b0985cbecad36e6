"""`python3 -m camera_consumer --database FILE [--stdin]`: from RabbitMQ, or from lines such as workers write."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from typing import Any

from camera_worker.settings import Settings, SettingsError, load

from .fence import MALFORMED, Fence

PREFETCH = 100
QUEUE_MAX = 1_000_000
PAUSE = 0.5


class Told:
    """Whether it is to stop."""

    yes = False


def from_rabbitmq(fence: Fence, settings: Settings, queue: str, told: Told) -> None:
    """Takes what comes until it is told to stop; connects again whenever the connection breaks."""
    import pika
    import pika.exceptions

    parameters = pika.URLParameters(settings.amqp_url)
    parameters.heartbeat = 10
    while not told.yes:
        try:
            connection = pika.BlockingConnection(parameters)
            channel = connection.channel()
            channel.exchange_declare(settings.exchange, "topic", durable=True)
            channel.queue_declare(queue, durable=True, arguments={"x-max-length": QUEUE_MAX})
            channel.queue_bind(queue, settings.exchange, "detection.#")
            channel.basic_qos(prefetch_count=PREFETCH)
            print("listening", file=sys.stderr, flush=True)
            for method, _, body in channel.consume(queue, inactivity_timeout=0.2):
                if told.yes:
                    connection.close()
                    return
                if method is not None and body is not None:
                    answer(channel, method, fence.take(body))
        except (pika.exceptions.AMQPError, OSError) as error:
            print(f"camera_consumer: RabbitMQ: {type(error).__name__} {error}; connecting again", file=sys.stderr, flush=True)
            time.sleep(PAUSE)


def answer(channel: Any, method: Any, verdict: str) -> None:
    """Tells the broker that it may forget a message. What nobody can read goes where its queue sends such things."""
    if verdict == MALFORMED:
        channel.basic_nack(method.delivery_tag, requeue=False)
    else:
        channel.basic_ack(method.delivery_tag)


def from_lines(fence: Fence, told: Told) -> None:
    """Takes the lines of standard input."""
    for line in sys.stdin.buffer:
        if told.yes:
            return
        fence.take(line)


def main() -> int:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="camera_consumer", description="Accepts each event once, and none of a former owner.")
    parser.add_argument("--database", required=True, help="a SQLite file, which is its memory")
    parser.add_argument("--queue", default="detections")
    parser.add_argument("--keep", type=int, default=100_000, help="how many events are remembered")
    parser.add_argument("--stdin", action="store_true", help="lines of standard input instead of RabbitMQ")
    given = parser.parse_args()
    told = Told()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(told, "yes", True))
    try:
        settings = load(os.environ)
    except SettingsError as error:
        print(f"camera_consumer: {error}", file=sys.stderr)
        return 2
    fence = Fence(given.database, given.keep)
    if given.stdin:
        from_lines(fence, told)
    elif settings.amqp_url:
        from_rabbitmq(fence, settings, given.queue, told)
    else:
        print("camera_consumer: say where RabbitMQ is in CAMERA_WORKER_AMQP_URL, or give --stdin", file=sys.stderr)
        return 2
    print(json.dumps(fence.summary()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
