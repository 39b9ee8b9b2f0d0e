/**
 * A client of the old protocol, written only from its description. It shares no code with the server, so that both
 * cannot have the same error.
 *
 * As in Python 2, a string is bytes, and `u("…")` is text. A number without a fraction is an integer, and `f(1)` is a float.
 * Results are printed as Python prints them, because this form shows the type of every value.
 */
import { Buffer } from "node:buffer";
import { connect, type Socket } from "node:net";

export class Text {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}
export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}
export class Tuple {
  readonly items: readonly Value[];
  constructor(items: readonly Value[]) {
    this.items = items;
  }
}
export class Uuid {
  readonly hex: string;
  constructor(hex: string) {
    this.hex = hex;
  }
}
export class Tagged {
  readonly tag: number;
  readonly value: Value;
  constructor(tag: number, value: Value) {
    this.tag = tag;
    this.value = value;
  }
}
/** An item that is already encoded. */
export class Raw {
  readonly bytes: Buffer;
  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }
}
/** A map whose keys are not all bytes, or repeat. */
export class Dict {
  readonly entries: readonly (readonly [Value, Value])[];
  constructor(entries: readonly (readonly [Value, Value])[]) {
    this.entries = entries;
  }
  get(name: string): Value | undefined {
    const found = this.entries.find(
      ([key]) =>
        (key instanceof Text && key.text === name) ||
        (Buffer.isBuffer(key) && key.toString("latin1") === name),
    );
    return found?.[1];
  }
}

export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Buffer
  | Text
  | Float
  | Tuple
  | Uuid
  | Tagged
  | Raw
  | Dict
  | readonly Value[]
  | { readonly [key: string]: Value };

export const u = (text: string): Text => new Text(text);
export const f = (value: number): Float => new Float(value);
export const t = (...items: Value[]): Tuple => new Tuple(items);
export const hex = (text: string): Buffer => Buffer.from(text.replace(/\s/g, ""), "hex");

// ---- encoding

function head(major: number, value: number | bigint): Buffer {
  const top = major << 5;
  if (value < 24) return Buffer.of(top | Number(value));
  if (value < 0x100) return Buffer.of(top | 24, Number(value));
  const bytes = Buffer.alloc(value < 0x1_0000 ? 3 : value < 0x1_0000_0000 ? 5 : 9);
  bytes[0] = top | (bytes.length === 3 ? 25 : bytes.length === 5 ? 26 : 27);
  if (bytes.length === 3) bytes.writeUInt16BE(Number(value), 1);
  else if (bytes.length === 5) bytes.writeUInt32BE(Number(value), 1);
  else bytes.writeBigUInt64BE(BigInt(value), 1);
  return bytes;
}

export function encode(value: Value): Buffer {
  if (value === null) return Buffer.of(0xf6);
  if (typeof value === "boolean") return Buffer.of(value ? 0xf5 : 0xf4);
  if (typeof value === "bigint") return encodeBig(value);
  if (typeof value === "number") {
    if (Number.isInteger(value)) return encodeBig(BigInt(value));
    return encode(new Float(value));
  }
  if (typeof value === "string") return encode(Buffer.from(value, "utf8"));
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  if (value instanceof Text) {
    const bytes = Buffer.from(value.text, "utf8");
    return Buffer.concat([head(3, bytes.length), bytes]);
  }
  if (value instanceof Float) {
    const bytes = Buffer.alloc(9);
    bytes[0] = 0xfb;
    bytes.writeDoubleBE(value.value, 1);
    return bytes;
  }
  if (value instanceof Tuple) return Buffer.concat([head(6, 128), encode([...value.items])]);
  if (value instanceof Uuid) return Buffer.concat([head(6, 37), encode(Buffer.from(value.hex, "hex"))]);
  if (value instanceof Tagged) return Buffer.concat([head(6, value.tag), encode(value.value)]);
  if (value instanceof Raw) return value.bytes;
  if (value instanceof Dict) return encodeEntries(value.entries);
  if (isList(value)) return Buffer.concat([head(4, value.length), ...value.map(encode)]);
  return encodeEntries(Object.entries(value));
}

const isList = (value: object): value is readonly Value[] => Array.isArray(value);

function encodeEntries(entries: readonly (readonly [Value, Value])[]): Buffer {
  return Buffer.concat([
    head(5, entries.length),
    ...entries.flatMap(([key, value]) => [encode(key), encode(value)]),
  ]);
}

function encodeBig(value: bigint): Buffer {
  const magnitude = value < 0n ? -1n - value : value;
  // like the C codec of the Python client: integers of more than 63 bits are bignums
  if (magnitude < 2n ** 63n) return head(value < 0n ? 1 : 0, magnitude);
  const text = magnitude.toString(16);
  const bytes = Buffer.from(text.length % 2 === 0 ? text : `0${text}`, "hex");
  return Buffer.concat([head(6, value < 0n ? 3 : 2), encode(bytes)]);
}

/** The outer layer: the message as a byte string, tagged as encoded CBOR. */
export function wrap(inner: Buffer): Buffer {
  return Buffer.concat([hex("d818"), encode(inner)]);
}

export function request(id: Value, method: Value, params: Value): Buffer {
  return wrap(encode({ params, id, method }));
}

// ---- decoding

export class NeedMore extends Error {}

/** Rejects the same input as the Python client: unknown tags, and text that is not UTF-8. */
export function decode(bytes: Buffer, start = 0): { value: Value; end: number } {
  const first = byteAt(bytes, start);
  const info = first & 31;
  if (first >> 5 === 7) return decodeSimple(bytes, start, first);
  if (info === 31) return decodeEndless(bytes, start, first >> 5);
  const size = info < 24 ? 0 : info <= 27 ? 1 << (info - 24) : -1;
  if (size < 0) throw new Error(`unexpected head 0x${first.toString(16)}`);
  if (start + 1 + size > bytes.length) throw new NeedMore();
  const big = size === 0 ? BigInt(info) : BigInt(`0x${bytes.toString("hex", start + 1, start + 1 + size)}`);
  const number = Number(big);
  let at = start + 1 + size;
  const integer = (value: bigint): Value => (Number.isSafeInteger(Number(value)) ? Number(value) : value);
  switch (first >> 5) {
    case 0:
      return { value: integer(big), end: at };
    case 1:
      return { value: integer(-1n - big), end: at };
    case 2:
    case 3: {
      const end = at + number;
      if (end > bytes.length) throw new NeedMore();
      const content = bytes.subarray(at, end);
      if (first >> 5 === 2) return { value: content, end };
      return { value: new Text(new TextDecoder("utf-8", { fatal: true }).decode(content)), end };
    }
    case 4:
    case 5: {
      const items: Value[] = [];
      for (let left = number * (first >> 5 === 5 ? 2 : 1); left > 0; left--) {
        const item = decode(bytes, at);
        items.push(item.value);
        at = item.end;
      }
      if (first >> 5 === 4) return { value: items, end: at };
      const entries: (readonly [Value, Value])[] = [];
      for (let i = 0; i < items.length; i += 2) entries.push([items[i] ?? null, items[i + 1] ?? null]);
      return { value: new Dict(entries), end: at };
    }
    default: {
      const inner = decode(bytes, at);
      return { value: untag(number, inner.value), end: inner.end };
    }
  }
}

/** Decodes an item of indefinite length. The server returns such items in the form in which they were stored. */
function decodeEndless(bytes: Buffer, start: number, major: number): { value: Value; end: number } {
  const items: Value[] = [];
  let at = start + 1;
  while (byteAt(bytes, at) !== 0xff) {
    const item = decode(bytes, at);
    items.push(item.value);
    at = item.end;
  }
  const end = at + 1;
  if (major === 2) return { value: Buffer.concat(items as Buffer[]), end };
  if (major === 3) return { value: new Text((items as Text[]).map(({ text }) => text).join("")), end };
  if (major === 4) return { value: items, end };
  if (major !== 5 || items.length % 2 === 1) throw new Error("endless what?");
  const entries: (readonly [Value, Value])[] = [];
  for (let i = 0; i < items.length; i += 2) entries.push([items[i] ?? null, items[i + 1] ?? null]);
  return { value: new Dict(entries), end };
}

function untag(tag: number, value: Value): Value {
  if (tag === 128 && Array.isArray(value)) return new Tuple(value as Value[]);
  if (tag === 37 && Buffer.isBuffer(value) && value.length === 16) return new Uuid(value.toString("hex"));
  if ((tag === 2 || tag === 3) && Buffer.isBuffer(value)) {
    const magnitude = BigInt(`0x${value.toString("hex") || "0"}`);
    return tag === 2 ? magnitude : -1n - magnitude;
  }
  if (tag === 24 && Buffer.isBuffer(value)) return decode(value).value;
  throw new Error(`unknown tag ${tag}`);
}

function decodeSimple(bytes: Buffer, start: number, first: number): { value: Value; end: number } {
  if (first === 0xf4 || first === 0xf5) return { value: first === 0xf5, end: start + 1 };
  if (first === 0xf6 || first === 0xf7) return { value: null, end: start + 1 };
  if (first === 0xfb) {
    if (start + 9 > bytes.length) throw new NeedMore();
    return { value: new Float(bytes.readDoubleBE(start + 1)), end: start + 9 };
  }
  if (first === 0xfa) return { value: new Float(bytes.readFloatBE(start + 1)), end: start + 5 };
  // no test depends on the value
  if (first === 0xf9) return { value: new Float(NaN), end: start + 3 };
  throw new Error(`simple value 0x${first.toString(16)}`);
}

function byteAt(bytes: Buffer, at: number): number {
  const byte = bytes[at];
  if (byte === undefined) throw new NeedMore();
  return byte;
}

/** Formats a value as Python prints it: b'…' bytes, u'…' text, 1.0 a float, (…) a tuple. */
export function show(value: Value): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (Buffer.isBuffer(value)) {
    const text = value
      .toString("latin1")
      .replace(/[^ -~]/g, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`);
    return `b'${text}'`;
  }
  if (value instanceof Text) return `u'${value.text}'`;
  if (value instanceof Float) return Number.isInteger(value.value) ? `${value.value}.0` : String(value.value);
  if (value instanceof Tuple)
    return `(${value.items.map(show).join(", ")}${value.items.length === 1 ? "," : ""})`;
  if (value instanceof Uuid) return `UUID('${value.hex}')`;
  if (value instanceof Dict) return `{${value.entries.map(([k, v]) => `${show(k)}: ${show(v)}`).join(", ")}}`;
  if (typeof value === "object" && isList(value)) return `[${value.map(show).join(", ")}]`;
  throw new Error("nothing that is decoded");
}

/** The length of the frame at the start of `bytes`; if it is not known yet, one more than the bytes received. */
function frameLength(bytes: Buffer): number {
  const info = (bytes[2] ?? 0) & 31;
  const size = info < 24 ? 0 : 1 << (info - 24);
  if (bytes.length < 3 + size) return bytes.length + 1;
  if (bytes[0] !== 0xd8 || bytes[1] !== 24 || (bytes[2] ?? 0) >> 5 !== 2) throw new Error("not a frame");
  return 3 + size + (size === 0 ? info : Number(`0x${bytes.toString("hex", 3, 3 + size)}`));
}

// ---- the connection

export class WireError extends Error {}

export class WireClient {
  readonly socket: Socket;
  #id = 0;
  #parts: Buffer[] = [];
  #length = 0;
  #needed = 1;
  #waiting: { resolve: (message: Dict) => void; reject: (error: Error) => void }[] = [];
  #messages: Dict[] = [];
  closed = false;
  readonly #ended: Promise<string>;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (chunk) => this.#take(chunk));
    let how = "FIN";
    socket.on(
      "error",
      (error: NodeJS.ErrnoException) => (how = error.code === "ECONNRESET" ? "RST" : (error.code ?? "error")),
    );
    this.#ended = new Promise((resolve) =>
      socket.on("close", () => {
        this.closed = true;
        for (const { reject } of this.#waiting.splice(0)) reject(new Error(`closed: ${how}`));
        resolve(how);
      }),
    );
  }

  static async connect(port: number): Promise<WireClient> {
    const socket = connect(port, "127.0.0.1");
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return new WireClient(socket);
  }

  /** How the connection ended: "RST" or "FIN". */
  ended(): Promise<string> {
    return this.#ended;
  }

  /** Waits for the length given in the frame's head before decoding, so that long frames are not scanned repeatedly. */
  #take(chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#length += chunk.length;
    while (this.#length >= this.#needed) {
      const bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
      this.#parts = [bytes];
      const total = frameLength(bytes);
      if (total > this.#length) {
        this.#needed = total;
        return;
      }
      const { value } = decode(bytes);
      if (!(value instanceof Dict)) throw new Error(`not a response: ${show(value)}`);
      this.#parts = [bytes.subarray(total)];
      this.#length -= total;
      this.#needed = 1;
      const waiting = this.#waiting.shift();
      if (waiting === undefined) this.#messages.push(value);
      else waiting.resolve(value);
    }
  }

  /** The next response, whatever it is. */
  next(): Promise<Dict> {
    const message = this.#messages.shift();
    if (message !== undefined) return Promise.resolve(message);
    if (this.closed) return Promise.reject(new Error("closed"));
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  async raw(bytes: Buffer): Promise<Dict> {
    this.socket.write(bytes);
    return this.next();
  }

  /** Reads a response as the Python client does: the id must match, `result` wins, else `error.message` is raised. */
  async call(method: string, ...params: Value[]): Promise<Value> {
    const id = ++this.#id;
    const response = await this.raw(request(id, method, params));
    if (response.get("id") !== id) throw new Error(`answered ${show(response)} to ${id}`);
    const result = response.get("result");
    if (result !== undefined) return result;
    const error = response.get("error");
    if (!(error instanceof Dict)) throw new Error(`no error map in ${show(response)}`);
    const message = error.get("message");
    throw new WireError(message instanceof Text ? message.text : show(response));
  }

  async shown(method: string, ...params: Value[]): Promise<string> {
    return show(await this.call(method, ...params));
  }

  close(): void {
    this.socket.destroy();
  }
}
