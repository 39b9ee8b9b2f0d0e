/** Makes an animated PNG from pictures of one size: the image data is copied, and control chunks set how long each frame is shown. */
const signature = 8;

interface Chunk {
  readonly type: string;
  readonly data: Buffer;
}

const table = Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let bit = 0; bit < 8; bit++) c = (c & 1) === 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

function crc(bytes: Buffer): number {
  let c = 0xffffffff;
  for (const byte of bytes) c = (table[(c ^ byte) & 0xff]! ^ (c >>> 8)) >>> 0;
  return (c ^ 0xffffffff) >>> 0;
}

function chunks(png: Buffer): Chunk[] {
  const found: Chunk[] = [];
  for (let at = signature; at < png.length;) {
    const length = png.readUInt32BE(at);
    found.push({ type: png.toString("latin1", at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) });
    at += length + 12;
  }
  return found;
}

function write({ type, data }: Chunk): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const whole = Buffer.alloc(body.length + 8);
  whole.writeUInt32BE(data.length, 0);
  body.copy(whole, 4);
  whole.writeUInt32BE(crc(body), body.length + 4);
  return whole;
}

const words = (...values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, i) => bytes.writeUInt32BE(value, i * 4));
  return bytes;
};

/** The animation repeats endlessly and shows the last frame longer. A viewer without support for animation shows the first frame. */
export function animate(frames: readonly Buffer[], frameMs: number, lastMs: number): Buffer {
  const [first] = frames;
  if (first === undefined) throw new Error("an animation needs a frame");
  const head = chunks(first).find(({ type }) => type === "IHDR")!;
  const [width, height] = [head.data.readUInt32BE(0), head.data.readUInt32BE(4)];
  const all: Chunk[] = [head, { type: "acTL", data: words(frames.length, 0) }];
  let serial = 0;
  frames.forEach((frame, i) => {
    const own = chunks(frame);
    if (!own.find(({ type }) => type === "IHDR")!.data.equals(head.data))
      throw new Error(`frame ${i} has another size or depth than the first`);
    const times = Buffer.alloc(6);
    times.writeUInt16BE(i === frames.length - 1 ? lastMs : frameMs, 0);
    times.writeUInt16BE(1000, 2);
    all.push({ type: "fcTL", data: Buffer.concat([words(serial++, width, height, 0, 0), times]) });
    for (const { type, data } of own) {
      if (type !== "IDAT") continue;
      all.push(i === 0 ? { type, data } : { type: "fdAT", data: Buffer.concat([words(serial++), data]) });
    }
  });
  all.push({ type: "IEND", data: Buffer.alloc(0) });
  return Buffer.concat([first.subarray(0, signature), ...all.map(write)]);
}
