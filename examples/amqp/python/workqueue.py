"""Shares out tasks among workers, with queues as older programs declare them: not durable.

    python3 workqueue.py work        # in as many terminals as you like
    python3 workqueue.py add "resize picture 7"
"""

import os
import sys

import pika

QUEUE = "example.python.tasks"


def work(channel):
    def task(ch, method, _properties, body):
        print("did", body.decode(), flush=True)
        ch.basic_ack(method.delivery_tag)  # only now is it gone

    channel.basic_qos(prefetch_count=1)  # one task at a time
    channel.basic_consume(QUEUE, task)
    print("ready", flush=True)
    channel.start_consuming()


def main():
    url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/")
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=False)
    if sys.argv[1:2] == ["work"]:
        work(channel)
    elif sys.argv[1:2] == ["add"]:
        task = " ".join(sys.argv[2:])
        channel.basic_publish("", QUEUE, task.encode())
        print("added", task)
        connection.close()
    else:
        sys.exit("usage: workqueue.py work | add TASK")


if __name__ == "__main__":
    main()
