"""Where events go: RabbitMQ, which confirms each of them, or standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Protocol

CONFIRM_MAX = 10
"""Seconds after which a broker that says nothing is given up."""


class SinkError(Exception):
    """An event was not confirmed; it may have arrived or not."""


class Sink(Protocol):
    """Takes one event after the other."""

    def open(self) -> None:
        """Gets ready to send, which may take a while."""

    def send(self, key: str, event: dict[str, Any]) -> None:
        """Returns when the event is safe."""

    def idle(self) -> None:
        """Called now and then while there is nothing to send."""

    def close(self) -> None:
        """Lets go of connections."""


class Stdout:
    """One line of JSON for each event."""

    def open(self) -> None:
        """Nothing has to be done."""

    def send(self, key: str, event: dict[str, Any]) -> None:
        """Returns when the line has left this process."""
        try:
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
        except OSError as error:
            raise SinkError(f"standard output: {error.strerror}") from error

    def idle(self) -> None:
        """Nothing has to be done."""

    def close(self) -> None:
        """Nothing has to be done."""


class RabbitMq:
    """A topic exchange, to which the connection is made anew after each failure."""

    def __init__(self, url: str, exchange: str) -> None:
        # Only who sends to RabbitMQ needs its client.
        import pika
        import pika.exceptions

        self._pika = pika
        self._errors = (pika.exceptions.AMQPError, OSError)
        self._exchange = exchange
        self._parameters = pika.URLParameters(url)
        self._parameters.heartbeat = CONFIRM_MAX
        self._parameters.blocked_connection_timeout = CONFIRM_MAX
        self._parameters.socket_timeout = self._parameters.stack_timeout = CONFIRM_MAX
        self._connection: Any = None
        self._channel: Any = None

    def open(self) -> None:
        """Connects, unless there is a connection."""
        if self._channel is None:
            self._attempt(self._connect)

    def send(self, key: str, event: dict[str, Any]) -> None:
        """Returns when the broker has confirmed it."""
        properties = self._pika.BasicProperties(
            content_type="application/json", delivery_mode=2, message_id=event["event_id"], type="detection"
        )
        body = json.dumps(event).encode()
        self._attempt(lambda: self._channel.basic_publish(self._exchange, key, body, properties))

    def _attempt(self, step: Callable[[], object]) -> None:
        try:
            step()
        except self._errors as error:
            self.close()
            # What the library says names hosts and reasons, and never the password.
            raise SinkError(f"RabbitMQ: {type(error).__name__} {error}") from error

    def _connect(self) -> None:
        self._connection = self._pika.BlockingConnection(self._parameters)
        channel = self._connection.channel()
        channel.exchange_declare(self._exchange, "topic", durable=True)
        channel.confirm_delivery()
        self._channel = channel

    def idle(self) -> None:
        """Answers the broker's heartbeats."""
        if self._connection is not None:
            try:
                self._connection.process_data_events(0)
            except self._errors:
                self.close()

    def close(self) -> None:
        """Ends the connection, if there is one."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            try:
                connection.close()
            except self._errors:
                # It was broken: that is why it is closed.
                pass
