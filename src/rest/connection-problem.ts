/** Explains why a connection to a daemon fails: one sentence per cause, with what to do. */
import { connect } from "node:tls";

const untrusted =
  /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?)$/;

export interface ConnectionProblem {
  readonly message: string;
  /** What to do about it. */
  readonly hint: string;
}

/** Explains an error of connecting to this address; null if it is another kind of error. `hasToken`: a token was sent. */
export async function connectionProblem(
  error: unknown,
  address: string,
  hasToken: boolean,
): Promise<ConnectionProblem | null> {
  if (!(error instanceof Error)) return null;
  const say = (message: string, hint: string): ConnectionProblem => ({ message, hint });
  const codes = codesOf(error);
  const host = address.replace(/^[a-z-]+:(\/\/)?/, "").replace(/\/$/, "");
  if (codes.includes("unauthorized") && hasToken)
    return say(
      "the token was not accepted: it is wrong, expired or revoked",
      "coordinate token list, on the daemon's machine, lists the valid tokens",
    );
  if (codes.some((code) => untrusted.test(code)))
    return say(
      `the certificate of ${host} is self-signed, or signed by an authority that this machine does not trust`,
      "to trust that certificate, set NODE_EXTRA_CA_CERTS=FILE",
    );
  if (codes.includes("CERT_HAS_EXPIRED"))
    return say(
      `the certificate of ${host} has expired`,
      "the daemon needs a new one: --tls-cert and --tls-key",
    );
  if (codes.includes("ERR_TLS_CERT_ALTNAME_INVALID"))
    return say(
      `the certificate of ${host} is for another name`,
      "use a name from the certificate as the address",
    );
  if (wantsCertificate(error, codes))
    return say(
      `${host} requires a client certificate`,
      "connect() and the command line cannot send one; connect from the daemon's machine",
    );
  if (address.startsWith("https:") && codes.includes("EPROTO"))
    return say(`${host} does not speak TLS`, "use http:// instead of https://");
  if (codes.includes("not_cbor_rpc"))
    return say(
      `${host} does not speak CBOR-RPC`,
      "a daemon serves CBOR-RPC at the address of --cborrpc, usually port 5932; for REST, use http://",
    );
  if (!address.startsWith("http:") || !codes.includes("ECONNRESET")) return null;
  return (await speaksTls(address))
    ? say(`${host} speaks TLS`, "use https:// instead of http://")
    : say(
        `${host} does not speak HTTP`,
        "a daemon serves REST at the address of --http, usually port 5980; for CBOR-RPC, use cborrpc://",
      );
}

/** Below TLS 1.3 the code is only EPROTO, and the name of the alert is only in the text of OpenSSL. */
const wantsCertificate = (error: Error, codes: readonly string[]): boolean =>
  codes.includes("ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED") ||
  (codes.includes("EPROTO") && error.message.includes("alert handshake failure"));

function codesOf(error: Error): string[] {
  const codes: string[] = [];
  for (let at: unknown = error; at instanceof Error; at = at.cause)
    if ("code" in at && typeof at.code === "string") codes.push(at.code);
  return codes;
}

const probeMs = 2000;

/** Tries a TLS handshake, and sends nothing over it. Used only after a failure. */
function speaksTls(address: string): Promise<boolean> {
  const { hostname, port } = new URL(address);
  return new Promise((resolve) => {
    const socket = connect({
      host: hostname.replace(/^\[|\]$/g, ""),
      port: Number(port || 80),
      // the identity of the server does not matter: no data is sent
      rejectUnauthorized: false,
      timeout: probeMs,
    });
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("secureConnect", () => end(true));
    socket.once("error", () => end(false));
    socket.once("timeout", () => end(false));
  });
}
