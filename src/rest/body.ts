/**
 * Reads JSON bodies. The bytes that all connections hold are limited. Long bodies are parsed one at a time, in pieces, in the turn
 * of a large request, so that other requests wait for one piece at most.
 */
import { Buffer, isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";
import { CoordinateError } from "../core/index.ts";
import { HeldBytes, type LargeRequests } from "../traffic/index.ts";
import { HttpError } from "./errors.ts";
import { whenAnswered } from "./when-answered.ts";
import { readLongWire, readWire, type WireLimits } from "./wire.ts";

export interface BodyOptions {
  /** The limit of one body. */
  maxBytes: number;
  /** The limit of all bodies that are being received or served, over all connections. */
  maxBytesHeld: number;
  limits: WireLimits;
  large: LargeRequests;
}

/** Shorter bodies are parsed at once and not counted. */
const longBytes = 64 * 1024;

export class Bodies {
  readonly #options: BodyOptions;
  readonly #held: HeldBytes;
  /** The parsing of the last long body in the queue. */
  #reading: Promise<unknown> = Promise.resolve();

  constructor(options: BodyOptions) {
    this.#options = options;
    this.#held = new HeldBytes(options.maxBytesHeld);
  }

  async read(request: FastifyRequest, payload: IncomingMessage): Promise<unknown> {
    const { maxBytes, limits, large } = this.#options;
    if (Number(request.headers["content-length"] ?? 0) > maxBytes) throw tooLarge(maxBytes);
    const body = await this.#receive(request, payload);
    if (body.length === 0) throw new HttpError("bad_request", "EOF");
    if (!isUtf8(body)) throw new HttpError("bad_request", "Invalid UTF-8 in the body");
    let value: unknown;
    if (body.length <= longBytes) value = readWire(body.toString("utf8"), limits);
    else {
      const { socket } = request.raw;
      large.charge(socket, body.length);
      await request.turn.take(0, body.length);
      whenAnswered(request.response, () => request.turn.end());
      value = await this.#readInTurn(body);
    }
    if (value === null) throw new HttpError("bad_request", "Invalid input format");
    return value;
  }

  async #readInTurn(body: Buffer): Promise<unknown> {
    const before = this.#reading;
    const reading = before
      .catch(() => undefined)
      .then(() => readLongWire(body.toString("utf8"), this.#options.limits));
    this.#reading = reading;
    return reading;
  }

  #receive(request: FastifyRequest, payload: IncomingMessage): Promise<Buffer> {
    const { maxBytes } = this.#options;
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let length = 0;
      let counted = 0;
      const stop = (): void => {
        payload.off("data", onData).off("end", onEnd).off("error", onError).off("close", onClose);
      };
      const fail = (error: Error): void => {
        stop();
        reject(error);
      };
      const onData = (chunk: Buffer): void => {
        length += chunk.length;
        if (length > maxBytes) return fail(tooLarge(maxBytes));
        if (length > longBytes) {
          const more = length - counted;
          if (!this.#held.take(more))
            return fail(
              new HttpError("overloaded", "The server is receiving too many bytes; try again later", {
                "retry-after": "1",
              }),
            );
          if (counted === 0) whenAnswered(request.response, () => this.#held.give(counted));
          counted = length;
        }
        chunks.push(chunk);
      };
      const onEnd = (): void => {
        stop();
        resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, length));
      };
      const onError = (error: Error): void => fail(new HttpError("bad_request", error.message));
      const onClose = (): void => fail(incomplete());
      payload.on("data", onData).on("end", onEnd).on("error", onError).on("close", onClose);
    });
  }
}

/** The caller disconnected while it sent the body. */
export const incomplete = (): HttpError =>
  new HttpError("bad_request", "The connection ended before the body was complete");

const tooLarge = (max: number): CoordinateError =>
  new CoordinateError(
    "too_large",
    `the body of the request has more than ${max} bytes; send less in one request, or raise maxBodyBytes of the daemon`,
  );
