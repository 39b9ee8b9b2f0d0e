/** Calls the methods of the old protocol on a Coordinate in this process, with plain values and without a connection. */
import { Buffer } from "node:buffer";
import {
  cborData,
  CoordinateError,
  dataToCbor,
  decodeData,
  defaultDataLimits,
  encodeData,
  nameFromBytes,
  systemClock,
  Uuid,
  type Coordinate,
} from "../core/index.ts";
import { RpcError } from "./call.ts";
import { Fencing } from "./fencing.ts";
import { Item } from "./item.ts";
import { methods } from "./methods.ts";
import { Writer } from "./write.ts";

export const methodNames: readonly string[] = [...methods.keys()];

/** Calls a method as a Python client does. Throws `bad_argument` when the method refuses its parameters. */
export async function callMethod(
  coordinate: Coordinate,
  ns: string,
  name: string,
  params: readonly unknown[],
): Promise<unknown> {
  const method = methods.get(name);
  if (method === undefined) throw new CoordinateError("bad_argument", `method: unknown method ${name}`);
  const [min, max] = method.params;
  if (params.length < min || params.length > max)
    throw new CoordinateError(
      "bad_argument",
      `${name}: expected ${min === max ? min : `${min} to ${max}`} parameters, got ${params.length}`,
    );
  const sent = Buffer.from(dataToCbor(encodeData({ params })));
  const items = new Item(sent, 0).get("params")?.some(max) ?? [];
  const to = new Writer();
  to.map(1).text("result");
  try {
    const result = await method.run(
      {
        coordinate,
        ns,
        clock: systemClock(),
        fencing: new Fencing("strict"),
        gone: new AbortController().signal,
        settings: {
          dataLimits: defaultDataLimits,
          maxItems: 100_000,
          maxAnswerBytes: Infinity,
          config: null,
          archive: null,
        },
      },
      items,
    );
    result(to);
  } catch (error) {
    if (error instanceof RpcError)
      throw new CoordinateError("bad_argument", `${name}: ${error.message}`, { cause: error });
    throw error;
  }
  return textual(decodeData(cborData(to.content(), { maxBytes: Infinity })).result);
}

/** Turns byte strings into text for people: Python sends names as bytes. */
function textual(value: unknown): unknown {
  if (value instanceof Uint8Array) return nameFromBytes(value);
  if (Array.isArray(value)) return value.map(textual);
  if (value instanceof Uuid) return String(value);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, textual(one)]));
}
