/**
 * What a browser may be tricked into. A page from elsewhere can make a browser send requests to this machine, under
 * this page's own name even, when its owner points that name at 127.0.0.1. So the Host must be one that nobody else
 * can own (an address, localhost, or one that the operator allowed), and a browser's request must come from our own
 * pages. Programs send neither header and are not concerned.
 */
import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import { HttpError } from "./errors.ts";

export interface GuardOptions {
  /** Host names, besides localhost and addresses, under which this server is known. `*` is any. */
  allowHosts?: readonly string[];
}

/** A check for every request but those for pages, which a link on another site may well lead to. */
export function guard({ allowHosts = [] }: GuardOptions): (request: FastifyRequest, isPage: boolean) => void {
  const allowed = new Set(["localhost", ...allowHosts.map((host) => host.toLowerCase())]);
  const any = allowed.has("*");
  // the few spellings that are really used, so that nothing is parsed for each request
  const known = new Set<string>();
  return (request, isPage) => {
    const { headers, rawHeaders } = request.raw;
    const host = headers.host ?? "";
    // Node takes the first of several; a proxy before us may have taken another
    if (countHosts(rawHeaders) > 1) throw new HttpError("bad_request", "Host: there twice");
    if (!any && !known.has(host)) {
      // a socket in the file system has no host; nobody reaches it through a browser
      const name = hostName(host);
      if (request.raw.socket.remoteAddress !== undefined && isIP(name) === 0 && !allowed.has(name)) {
        throw new HttpError(
          "wrong_host",
          `This server is not known as ${JSON.stringify(host.slice(0, 200))}; see --allow-host`,
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

/** Names and values by turns, as they came. */
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
    return false; // `null`, and what is no URL at all
  }
}
