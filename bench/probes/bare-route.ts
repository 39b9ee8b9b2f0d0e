/** A Fastify route that returns a constant: the minimal cost of a request. Sends its URL to the parent process. */
import Fastify from "fastify";

const app = Fastify();
app.post("/bare", async () => Promise.resolve({ hello: "world", number: 1 }));
process.on("disconnect", () => process.exit(0));
process.send?.(await app.listen({ port: 0, host: "127.0.0.1" }));
