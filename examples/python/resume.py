"""Publishes with confirms and consumes, and goes on by another node when the one in use is lost.

    pip install grpcio grpcio-tools
    python3 -m grpc_tools.protoc -I ../../proto --python_out=. --grpc_python_out=. \\
        broker/v1/broker.proto broker/v1/admin.proto
    export QUORATE=127.0.0.1:7070,127.0.0.1:7170,127.0.0.1:7270
    python3 resume.py publish numbers 10000
    python3 resume.py consume numbers 10000
"""

import base64
import itertools
import os
import queue
import sys
import time

import grpc
from broker.v1 import admin_pb2, admin_pb2_grpc, broker_pb2, broker_pb2_grpc

WINDOW = 200  # messages that are published and not confirmed yet, or delivered and not settled
PAUSE = 0.2  # seconds between two tries
LOGIN = [("authorization", "Basic " + base64.b64encode(b"guest:guest").decode())]
OPTIONS = [  # a node that hangs is given up after 15 s; the broker takes pings from 5 s on
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.max_receive_message_length", -1),
]
# Errors that another try cannot mend; all others pass.
FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED,
}


def on_any_node(use):
    """Calls use with a channel to one node after the other, until it returns. EOFError is the end
    of a stream that should have gone on."""
    nodes = os.environ.get("QUORATE", "127.0.0.1:7070").split(",")
    for address in itertools.cycle(nodes):
        try:
            with grpc.insecure_channel(address, OPTIONS) as channel:
                grpc.channel_ready_future(channel).result(timeout=5)
                print("connected", address, flush=True)
                return use(channel)
        except grpc.FutureTimeoutError:
            pass
        except (grpc.RpcError, EOFError) as e:
            if isinstance(e, grpc.RpcError) and e.code() in FINAL:
                sys.exit(e.details())
            print("lost", address, flush=True)
        time.sleep(PAUSE)


class Publisher:
    """Numbers its messages and keeps each until its result is there. Under the same name and
    number a message is stored once, however often and by whichever node it is sent."""

    def __init__(self, name, count):
        self.name, self.count = name, count
        self.producer = os.urandom(16)
        self.sequence = 0
        self.unanswered = {}  # by sequence, which is their order

    def message(self, sequence):
        return broker_pb2.Message(
            routing_key=self.name,  # by the default exchange
            body=str(sequence).encode(),
            properties=broker_pb2.Properties(message_id=f"{self.producer.hex()}-{sequence}"),
        )

    def publish(self, channel):
        requests = queue.SimpleQueue()
        results = broker_pb2_grpc.BrokerStub(channel).Publish(iter(requests.get, None), metadata=LOGIN)
        requests.put(broker_pb2.PublishRequest(producer=self.producer))
        if self.unanswered:
            print("sent again", len(self.unanswered), flush=True)
        for request in self.unanswered.values():
            requests.put(request)
        self.fill(requests)
        try:
            for response in results:
                self.answer(response)
                self.fill(requests)
                if not self.unanswered:
                    requests.put(None)  # the end: the broker ends the stream, too
        finally:
            requests.put(None)
        if self.unanswered:
            raise EOFError

    def fill(self, requests):
        """Sends new messages as far as the window allows."""
        while self.sequence < self.count and len(self.unanswered) < WINDOW:
            self.sequence += 1
            request = broker_pb2.PublishRequest(sequence=self.sequence, message=self.message(self.sequence))
            self.unanswered[self.sequence] = request
            requests.put(request)

    def answer(self, response):
        if self.unanswered.pop(response.sequence, None) is None:
            return  # the answer to an earlier try has come as well
        if response.result.result != broker_pb2.PublishResult.RESULT_CONFIRMED:
            sys.exit(f"message {response.sequence} is not confirmed: {response.result}")
        confirmed = self.sequence - len(self.unanswered)
        if confirmed % 100 == 0:
            print("confirmed", confirmed, flush=True)


class Consumer:
    """Acknowledges what it has handled. What it had not, or whose acknowledgement was lost, comes
    again: it knows such messages by their message_id."""

    def __init__(self, name, count):
        self.name, self.count = name, count
        self.handled = set()

    def consume(self, channel):
        requests = queue.SimpleQueue()
        responses = broker_pb2_grpc.BrokerStub(channel).Consume(iter(requests.get, None), metadata=LOGIN)
        settled = False
        requests.put(broker_pb2.ConsumeRequest(open=broker_pb2.ConsumeOpen(queue=self.name, prefetch=WINDOW)))
        try:
            for response in responses:
                if response.HasField("deliveries"):
                    requests.put(self.acknowledge(response.deliveries.deliveries))
                elif response.HasField("settled") and len(self.handled) >= self.count:
                    settled = True  # the acknowledgements are stored
                    requests.put(None)  # the broker ends the stream, too
                elif response.HasField("cancelled"):
                    sys.exit("cancelled: " + response.cancelled.cause)
        finally:
            requests.put(None)
        if not settled:
            raise EOFError

    def acknowledge(self, deliveries):
        for delivery in deliveries:
            self.handle(delivery)
        ids = [d.delivery_id for d in deliveries]
        return broker_pb2.ConsumeRequest(settlement=broker_pb2.Settlement(
            delivery_ids=ids, outcome=broker_pb2.OUTCOME_ACK, request=ids[-1]))

    def handle(self, delivery):
        message_id = delivery.properties.message_id
        if message_id in self.handled:
            if not delivery.redelivered:
                sys.exit(f"{message_id} was stored twice")
            return
        self.handled.add(message_id)
        if len(self.handled) % 100 == 0:
            print("consumed", len(self.handled), flush=True)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("publish", "consume"):
        sys.exit("usage: resume.py publish | consume QUEUE COUNT")
    _, what, name, count = sys.argv
    on_any_node(lambda channel: admin_pb2_grpc.AdminStub(channel).DeclareQueue(
        admin_pb2.DeclareQueueRequest(name=name), metadata=LOGIN, timeout=30))
    if what == "publish":
        on_any_node(Publisher(name, int(count)).publish)
    else:
        on_any_node(Consumer(name, int(count)).consume)
    print("done", flush=True)


if __name__ == "__main__":
    main()
