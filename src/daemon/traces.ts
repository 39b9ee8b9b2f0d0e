/**
 * OpenTelemetry traces, if the program that starts the daemon has set them up. `@opentelemetry/api` is used if it is
 * installed; without an SDK its spans cost next to nothing.
 */
import { around, type Coordinate } from "../core/index.ts";

/** Wraps each verb in a span. Returns `inner` itself if there is no OpenTelemetry. */
export async function trace(inner: Coordinate): Promise<Coordinate> {
  const api = await import("@opentelemetry/api").catch(() => null);
  if (api === null) return inner;
  const tracer = api.trace.getTracer("coordinate");
  return around(inner, (verb, args, next) =>
    tracer.startActiveSpan(`coordinate.${verb}`, async (span) => {
      try {
        if (typeof args[0] === "string") span.setAttribute("coordinate.namespace", args[0].slice(0, 200));
        return await next();
      } catch (error) {
        span.setStatus({
          code: api.SpanStatusCode.ERROR,
          message: error instanceof Error ? error.name : "error",
        });
        throw error;
      } finally {
        span.end();
      }
    }),
  );
}
