// A child that executes simple orders instead of tasks, for tests of the pool. Frames as in src/worker/process/frame.ts.
import { spawn } from "node:child_process";
import { Socket } from "node:net";

const channel = new Socket({ fd: 3 });
/** @type {Buffer} */
let read = Buffer.alloc(0);
/** @type {Buffer[]} */
const kept = [];

/** @param {object} head */
function send(head) {
  const text = Buffer.from(JSON.stringify({ ...head, sizes: [] }));
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32BE(text.length, 0);
  channel.write(Buffer.concat([lengths, text]));
}

/** @type {Record<string, (value: number) => void>} */
const orders = {
  echo: (value) => send({ kind: "done", value }),
  pid: () => send({ kind: "done", value: process.pid }),
  print: (lines) => {
    for (let i = 0; i < lines; i++) console.log(`line ${i}`);
    console.error("to stderr");
    process.stdout.write("", () => send({ kind: "done", value: lines }));
  },
  exit: (code) => process.exit(code),
  kill: () => process.kill(process.pid, "SIGKILL"),
  throw: () => {
    throw new Error("thrown on purpose");
  },
  hang: () => send({ kind: "hanging", pid: process.pid }),
  block: () => {
    send({ kind: "blocking", pid: process.pid });
    setImmediate(() => {
      for (;;);
    });
  },
  stubborn: () => {
    process.on("SIGTERM", () => undefined);
    send({ kind: "stubborn" });
  },
  // starts a grandchild that ignores SIGTERM and reads nothing
  grandchild: () => {
    const script = "trap '' TERM; while :; do sleep 1; done";
    const child = spawn("sh", ["-c", script], { stdio: "inherit" });
    send({ kind: "grandchild", pid: child.pid });
  },
  grow: (mebibytes) => {
    for (let i = 0; i < mebibytes; i++) kept.push(Buffer.alloc(1024 * 1024, 1));
    send({ kind: "done", value: mebibytes });
  },
  garbage: () => void channel.write("this is no frame, and never was one"),
};

channel.on("data", (chunk) => {
  read = Buffer.concat([read, chunk]);
  while (read.length >= 8 && read.length >= 8 + read.readUInt32BE(0)) {
    const end = 8 + read.readUInt32BE(0);
    /** @type {{ kind: string, order?: string, value: number }} */
    const head = JSON.parse(read.toString("utf8", 8, end)); // eslint-disable-line @typescript-eslint/no-unsafe-assignment -- its supervisor wrote it
    read = read.subarray(end);
    if (head.kind === "start" && head.order === undefined) send({ kind: "ready", taskNames: [] });
    else orders[head.order ?? ""]?.(head.value);
  }
});
channel.on("close", () => process.exit(0));
