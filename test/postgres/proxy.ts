/** A proxy between a store and its server that can cut connections between any two messages, or stop forwarding. */
import { connect, createServer, type Socket } from "node:net";

export type Direction = "to server" | "to client";

export class Proxy {
  readonly #server = createServer((client) => this.#accept(client));
  readonly #pairs = new Set<[Socket, Socket]>();
  /** Connections whose client has sent LISTEN. */
  readonly #listening = new Set<[Socket, Socket]>();
  #target: number;
  #cut: { direction: Direction; left: number } | null = null;
  #refusing = false;
  port = 0;

  constructor(target: number) {
    this.#target = target;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    if (address !== null && typeof address === "object") this.port = address.port;
  }

  /** Cuts all connections. New connections go to this port. */
  retarget(port: number): void {
    this.#target = port;
    this.cutAll();
  }

  /** Cuts a connection once, after `messages` more messages in one direction. */
  cutAfter(direction: Direction, messages: number): void {
    this.#cut = { direction, left: messages };
  }

  get armed(): boolean {
    return this.#cut !== null;
  }

  disarm(): void {
    this.#cut = null;
  }

  /** Stops forwarding on all open connections, or only on those that listen, without closing them. */
  blackhole(which: "all" | "listening" = "all"): void {
    for (const pair of which === "all" ? this.#pairs : this.#listening)
      for (const socket of pair) socket.pause();
    this.#listening.clear();
  }

  /** The number of listening connections that still forward. */
  get listening(): number {
    return this.#listening.size;
  }

  refuse(refusing: boolean): void {
    this.#refusing = refusing;
    if (refusing) this.cutAll();
  }

  cutAll(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }

  async close(): Promise<void> {
    this.cutAll();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(client: Socket): void {
    if (this.#refusing) return void client.destroy();
    const server = connect(this.#target, "127.0.0.1");
    const pair: [Socket, Socket] = [client, server];
    this.#pairs.add(pair);
    const end = (): void => {
      this.#pairs.delete(pair);
      this.#listening.delete(pair);
      for (const socket of pair) socket.destroy();
    };
    for (const socket of pair) {
      socket.setNoDelay(true);
      socket.on("error", end);
      socket.on("close", end);
    }
    client.on("data", (chunk: Buffer) => {
      if (chunk.includes("LISTEN ")) this.#listening.add(pair);
    });
    // `true`: the first message of a client has no type
    this.#forward(client, server, "to server", end, true);
    this.#forward(server, client, "to client", end, false);
  }

  #forward(from: Socket, to: Socket, direction: Direction, end: () => void, startup: boolean): void {
    let buffered = Buffer.alloc(0);
    let untyped = startup;
    from.on("data", (chunk: Buffer) => {
      buffered = Buffer.concat([buffered, chunk]);
      for (;;) {
        const head = untyped ? 0 : 1;
        if (buffered.length < head + 4) return;
        const length = head + buffered.readInt32BE(head);
        if (buffered.length < length) return;
        if (!untyped && this.#cut?.direction === direction && this.#cut.left-- === 0) {
          this.#cut = null;
          return end();
        }
        to.write(buffered.subarray(0, length));
        buffered = buffered.subarray(length);
        untyped = false;
      }
    });
  }
}
