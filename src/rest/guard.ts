/**
 * Protects against foreign web pages. Such a page can make a browser send requests to this machine, even under the
 * page's own host name, if its owner points that name at 127.0.0.1 (DNS rebinding). So the Host must be one that no one
 * else can own (an address, localhost, or a name that the operator allowed), and a request of a browser must come from
 * our own pages. Programs send neither Origin nor Sec-Fetch-Site and are not affected.
 */
import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import { HttpError } from "./errors.ts";
import { unixSockets } from "./listen.ts";

export interface GuardOptions {
  /** Host names, besides localhost and addresses, under which this server is known. `*` is any. */
  allowHosts?: readonly string[];
}

/** Returns the check for all requests. Requests for pages need not come from our own pages: other sites may link to them. */
export function guard({ allowHosts = [] }: GuardOptions): (request: FastifyRequest, isPage: boolean) => void {
  const allowed = new Set(["localhost", ...allowHosts.map((host) => host.toLowerCase())]);
  const any = allowed.has("*");
  // caches accepted Host headers, so that not every request parses its own
  const known = new Set<string>();
  return (request, isPage) => {
    const { headers, rawHeaders, socket } = request.raw;
    const host = headers.host ?? "";
    // Node uses the first of several; a proxy in front of us may have used another
    if (countHosts(rawHeaders) > 1) throw new HttpError("bad_request", "Host: repeated header");
    // browsers always send one; programs that use HTTP/1.0 may not, such as the health checks of a load balancer
    if (!any && headers.host !== undefined && !known.has(host) && !unixSockets.has(socket)) {
      const name = hostName(host);
      if (isIP(name) === 0 && !allowed.has(name)) {
        throw new HttpError(
          "wrong_host",
          `This server does not accept requests for the host ${JSON.stringify(host.slice(0, 200))}; see --allow-host`,
        );
      }
      if (known.size < 100) known.add(host);
    }
    if (isPage) return;
    const { origin } = headers;
    if (origin !== undefined && !isSameOrigin(origin, host)) {
      throw new HttpError("forbidden", "Requests from other origins are refused");
    }
    const site = headers["sec-fetch-site"];
    if (site !== undefined && site !== "same-origin" && site !== "none") {
      throw new HttpError("forbidden", "Requests from other sites are refused");
    }
  };
}

/** `rawHeaders` has names and values in alternation, as received. */
function countHosts(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length === 4 && name.toLowerCase() === "host") count += 1;
  }
  return count;
}

function hostName(host: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d+)?$/.exec(host);
  return (bracketed?.[1] ?? host.replace(/:\d*$/, "")).toLowerCase();
}

function isSameOrigin(origin: string, host: string): boolean {
  try {
    return new URL(origin).host === host.toLowerCase();
  } catch {
    return false; // `null`, or not a URL
  }
}
