/** Creates certificates for the tests on demand, so that the repository contains no keys. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

export interface Certificate {
  cert: string;
  key: string;
}

export interface Certificates {
  ca: string;
  server: Certificate;
  client: Certificate;
  /** Self-signed. */
  stranger: Certificate;
}

const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
const names = "subjectAltName=DNS:localhost,IP:127.0.0.1";

/** Creates a self-signed certificate for this machine and returns the paths of its files. */
export function selfSigned(directory: string, name = "localhost"): Certificate {
  const files = { cert: path.join(directory, `${name}.pem`), key: path.join(directory, `${name}.key`) };
  const about = ["-days", "2", "-subj", `/CN=${name}`, "-addext", names];
  const out = ["-keyout", files.key, "-out", files.cert];
  execFileSync("openssl", ["req", "-x509", ...newKey, ...about, ...out], { stdio: "ignore" });
  return files;
}

/** Returns null if openssl is not installed. */
export function makeCertificates(): Certificates | null {
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-certificates-"));
  const openssl = (...args: string[]): void =>
    void execFileSync("openssl", args, { cwd: directory, stdio: "ignore" });
  const read = (name: string): string => readFileSync(path.join(directory, name), "utf8");
  const signed = (name: string): Certificate => {
    openssl("req", ...newKey, "-subj", `/CN=${name}`, "-keyout", `${name}.key`, "-out", `${name}.csr`);
    const ca = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"];
    openssl("x509", "-req", "-in", `${name}.csr`, ...ca, "-days", "2", "-out", `${name}.pem`);
    return { cert: read(`${name}.pem`), key: read(`${name}.key`) };
  };
  const own = (name: string): Certificate => {
    selfSigned(directory, name);
    return { cert: read(`${name}.pem`), key: read(`${name}.key`) };
  };
  try {
    writeFileSync(path.join(directory, "names"), `${names}\n`);
    const ca = own("ca").cert;
    return { ca, server: signed("server"), client: signed("client"), stranger: own("stranger") };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
