/** The browser's Buffer, a subset of Node's, behaves like Node's. */
import * as node from "node:buffer";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import * as browser from "../../src/dashboard/browser/buffer.ts";

// comparing thousands of arrays takes long on a busy machine
vi.setConfig({ testTimeout: 180_000 });

const bytes = fc.uint8Array({ maxLength: 300 });
const encodings = ["utf8", "hex", "base64", "base64url"] as const;

test("text of bytes, in every encoding and of every part", () => {
  fc.assert(
    fc.property(
      bytes,
      fc.constantFrom(...encodings),
      fc.nat(300),
      fc.nat(300),
      (given, encoding, from, to) => {
        expect(browser.Buffer.from(given).toString(encoding, from, to)).toBe(
          node.Buffer.from(given).toString(encoding, from, to),
        );
      },
    ),
  );
});

test("bytes of text, their number and order", () => {
  const text = fc.string({ unit: "binary", maxLength: 200 });
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect([...browser.Buffer.from(a, "utf8")]).toEqual([...node.Buffer.from(a, "utf8")]);
      expect(browser.Buffer.byteLength(a)).toBe(node.Buffer.byteLength(a));
      const here = browser.Buffer.compare(browser.Buffer.from(a), browser.Buffer.from(b));
      expect(here).toBe(node.Buffer.compare(node.Buffer.from(a), node.Buffer.from(b)));
    }),
  );
});

test("what was encoded is read back", () => {
  fc.assert(
    fc.property(
      bytes,
      fc.constantFrom("hex" as const, "base64" as const, "base64url" as const),
      (given, encoding) => {
        const written = node.Buffer.from(given).toString(encoding);
        expect([...browser.Buffer.from(written, encoding)]).toEqual([...given]);
      },
    ),
  );
});

test("what is UTF-8, and pieces put together", () => {
  fc.assert(
    fc.property(bytes, bytes, (a, b) => {
      expect(browser.isUtf8(a)).toBe(node.isUtf8(a));
      expect([...browser.Buffer.concat([a, b])]).toEqual([...node.Buffer.concat([a, b])]);
    }),
  );
});

test("numbers at a place", () => {
  fc.assert(
    fc.property(
      fc.double(),
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      fc.nat(0xffff),
      (double, big, short) => {
        const here = browser.Buffer.alloc(20);
        const there = node.Buffer.alloc(20);
        for (const one of [here, there]) {
          one.writeUInt16BE(short, one.writeBigUInt64BE(big, one.writeDoubleBE(double, 1)));
        }
        expect([...here]).toEqual([...there]);
        expect([here.readDoubleBE(1), here.readBigUInt64BE(9), here.readUInt16BE(17)]).toEqual([
          double,
          big,
          short,
        ]);
      },
    ),
  );
});
