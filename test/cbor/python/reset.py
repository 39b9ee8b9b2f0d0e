"""Calls `now` until told to stop by the end of its input; prints how often the connection had to be made anew."""

import sys
import threading

from coordinate_client import Client


def main():
    client = Client("127.0.0.1", int(sys.argv[1]), retries=8)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    calls = 0
    client.call("now")
    print("ready", flush=True)
    while not stop.wait(0.01):
        client.call("now")
        calls += 1
    print(calls, client.reconnects)


if __name__ == "__main__":
    main()
