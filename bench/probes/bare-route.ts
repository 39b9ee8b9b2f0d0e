/** A route of Fastify that answers a constant: the least that a request costs. Says its URL to whoever started it. */
import Fastify from "fastify";

const app = Fastify();
app.post("/bare", async () => Promise.resolve({ hello: "world", number: 1 }));
process.on("disconnect", () => process.exit(0));
process.send?.(await app.listen({ port: 0, host: "127.0.0.1" }));
