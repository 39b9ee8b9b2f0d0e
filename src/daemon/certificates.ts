/** The certificates of TLS. Their files are read again every minute, so that a renewed certificate needs no restart. */
import type { Buffer } from "node:buffer";
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { reasonOf } from "../config/index.ts";
import { ConfigError } from "./config-error.ts";
import type { Config } from "./config.ts";
import { exitCodes, StartError } from "./start-error.ts";

type TlsConfig = Pick<Config, "tlsCert" | "tlsKey" | "tlsClientCa">;

export interface Tls {
  cert: Buffer;
  key: Buffer;
  /** The authority whose certificates clients must have. */
  ca?: Buffer;
  requestCert?: boolean;
  rejectUnauthorized?: boolean;
}

/** Null: no TLS. */
export function readTls(config: TlsConfig): Tls | null {
  if (config.tlsCert === "") return null;
  const read = (option: string, file: string): Buffer => {
    try {
      return readFileSync(file);
    } catch (error) {
      const denied = error instanceof Error && "code" in error && error.code === "EACCES";
      const code = denied ? exitCodes.noPermission : exitCodes.badConfig;
      throw new StartError(`${option} ${file}: ${reasonOf(error)}`, code, { cause: error });
    }
  };
  const cert = read("--tls-cert", config.tlsCert);
  const key = read("--tls-key", config.tlsKey);
  checkPem(`--tls-cert ${config.tlsCert}: not a certificate in PEM format`, { cert });
  checkPem(`--tls-key ${config.tlsKey}: not a private key in PEM format, or one with a passphrase`, { key });
  checkPem(`--tls-key ${config.tlsKey}: not the key of the certificate ${config.tlsCert}`, { cert, key });
  if (config.tlsClientCa === "") return { cert, key };
  const ca = read("--tls-client-ca", config.tlsClientCa);
  checkPem(`--tls-client-ca ${config.tlsClientCa}: not a certificate in PEM format`, { ca });
  return { cert, key, ca, requestCert: true, rejectUnauthorized: true };
}

function checkPem(problem: string, given: { cert?: Buffer; key?: Buffer; ca?: Buffer }): void {
  try {
    // createSecureContext ignores an invalid CA certificate
    if (given.ca !== undefined) new X509Certificate(given.ca);
    createSecureContext(given);
  } catch (error) {
    throw new ConfigError(problem, { cause: error });
  }
}

const checkMs = 60_000;

export interface TlsEvents {
  readonly onRenewed: (tls: Tls) => void;
  /** The files cannot be read or do not fit together, perhaps because not all of them are written yet. They are read again. */
  readonly onError: (error: unknown) => void;
}

/** Reports when the files no longer have the content `used`. Returns a function that stops this. */
export function watchTls(config: TlsConfig, used: Tls, { onRenewed, onError }: TlsEvents): () => void {
  const timer = setInterval(() => {
    try {
      const tls = readTls(config);
      if (tls === null || isSame(tls, used)) return;
      used = tls;
      onRenewed(tls);
    } catch (error) {
      onError(error);
    }
  }, checkMs);
  timer.unref();
  return () => clearInterval(timer);
}

const textOf = ({ cert, key, ca }: Tls): string => [cert, key, ca].join();
const isSame = (a: Tls, b: Tls): boolean => textOf(a) === textOf(b);
