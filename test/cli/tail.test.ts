import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { run } from "./in-process.ts";

test("tail goes on when the daemon restarts before the first event, and says that events were missed", async () => {
  const cursors: (string | string[] | undefined)[] = [];
  const server = createServer((request, response) => {
    if (request.url?.includes("/events") !== true) {
      response.writeHead(404).end();
      return;
    }
    cursors.push(request.headers["last-event-id"]);
    if (cursors.length === 2) {
      // a proxy, while the daemon is down
      response.writeHead(502).end();
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (cursors.length === 1) response.end(": watching\nid: x.0\n\n");
    else response.write('event: reset\ndata: {"type":"reset","verb":"","time":0}\n\n');
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const ran = await run(["tail", "-n", "1", "--address", `http://127.0.0.1:${port}`]);
  expect(ran).toMatchObject({ code: 0, err: "" });
  expect(ran.out).not.toBe("");
  expect(cursors).toEqual([undefined, "", ""]);
});
