/** A minimal HTTP client, because it shares the machine with the server: one connection, one request at a time. */
import { createConnection, type Socket } from "node:net";

export class Connection {
  readonly #socket: Socket;
  readonly #host: string;
  #buffer = "";
  #resolve: (body: string) => void = () => undefined;

  constructor(url: string) {
    const { hostname, port, host } = new URL(url);
    this.#host = host;
    this.#socket = createConnection({ host: hostname, port: Number(port), noDelay: true });
    this.#socket.setEncoding("latin1");
    this.#socket.on("data", (chunk: string) => this.#take(chunk));
  }

  #take(chunk: string): void {
    this.#buffer += chunk;
    const end = this.#buffer.indexOf("\r\n\r\n");
    if (end < 0) return;
    const at = this.#buffer.toLowerCase().indexOf("content-length: ");
    const length = Number.parseInt(this.#buffer.slice(at + 16, at + 26), 10);
    if (this.#buffer.length < end + 4 + length) return;
    const body = this.#buffer.slice(end + 4);
    if (!this.#buffer.startsWith("HTTP/1.1 200")) throw new Error(this.#buffer);
    this.#buffer = "";
    this.#resolve(body);
  }

  post(target: string, body: string): Promise<string> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#socket.write(
        `POST ${target} HTTP/1.1\r\nHost: ${this.#host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}
