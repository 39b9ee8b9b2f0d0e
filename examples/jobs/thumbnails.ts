/** The job function of examples/jobs.ts: paints a picture, scales it down and writes it as PNG. Runs in worker processes. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { crc32, deflateSync } from "./png.ts";

export interface Thumbnail {
  file: string;
  width: number;
  height: number;
  bytes: number;
}

/** Paints picture number `n`, scales it down to `width` pixels, and writes it into the folder. */
export function thumbnail(n: number, folder: string, { width }: { width: number }): Thumbnail {
  if (n === 13) throw new Error("picture 13 cannot be read: its header is damaged");
  const picture = paint(n, 8 * width);
  const small = scaleDown(picture, width);
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, `${String(n).padStart(3, "0")}.png`);
  const png = encode(small);
  writeFileSync(file, png);
  return { file, width: small.width, height: small.height, bytes: png.length };
}

interface Picture {
  width: number;
  height: number;
  /** Red, green and blue of each pixel, row by row. */
  pixels: Uint8Array;
}

/** Rings and stripes, different for each number. */
function paint(n: number, size: number): Picture {
  const pixels = new Uint8Array(size * size * 3);
  for (let y = 0; y < size; y++)
    for (let x = 0; x < size; x++) {
      const distance = Math.hypot(x - size / 2, y - size / 2);
      const at = (y * size + x) * 3;
      pixels[at] = 128 + 127 * Math.sin((distance * (3 + (n % 7))) / 20);
      pixels[at + 1] = 128 + 127 * Math.sin((x * (1 + (n % 5))) / 15);
      pixels[at + 2] = 128 + 127 * Math.cos((y * (1 + (n % 3))) / 25 + n);
    }
  return { width: size, height: size, pixels };
}

/** Each pixel of the result is the mean of the pixels that it replaces. */
function scaleDown(picture: Picture, width: number): Picture {
  const by = picture.width / width;
  const height = Math.round(picture.height / by);
  const pixels = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let colour = 0; colour < 3; colour++) {
        let sum = 0;
        for (let dy = 0; dy < by; dy++)
          for (let dx = 0; dx < by; dx++)
            sum += picture.pixels[((y * by + dy) * picture.width + x * by + dx) * 3 + colour] ?? 0;
        pixels[(y * width + x) * 3 + colour] = sum / (by * by);
      }
  return { width, height, pixels };
}

function encode({ width, height, pixels }: Picture): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // 8 bits for each of red, green and blue
  header.set([8, 2, 0, 0, 0], 8);
  const rows = Buffer.alloc(height * (1 + width * 3));
  for (let y = 0; y < height; y++)
    rows.set(pixels.subarray(y * width * 3, (y + 1) * width * 3), y * (1 + width * 3) + 1);
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  framed.set(body, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}
