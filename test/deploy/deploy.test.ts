/**
 * The files in deploy/: systemd verifies the systemd units, the Kubernetes manifests are checked against the schemas of their kinds, and
 * all options in the files must exist. No image is built here: that needs a container engine and a registry.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { readConfig } from "../../src/daemon/config.ts";
import { whySkipped } from "../skipped-reporter.ts";

const require = createRequire(import.meta.url);
const root = path.join(import.meta.dirname, "..", "..");
const deploy = path.join(root, "deploy");
const read = (name: string): string => readFileSync(path.join(deploy, name), "utf8");
const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as { version: string };

const noSystemd =
  spawnSync("systemd-analyze", ["--version"]).status === 0 ? "" : "systemd-analyze is not installed";

describe("systemd", () => {
  const title = `finds nothing wrong with the units${whySkipped(noSystemd)}`;
  test.skipIf(noSystemd !== "")(title, { timeout: 60_000 }, () => {
    const place = mkdtempSync(path.join(tmpdir(), "coordinate-units-"));
    onTestFinished(() => rmSync(place, { recursive: true, force: true }));
    const units = ["coordinated.service", "coordinate-worker.service"];
    for (const unit of units) copyFileSync(path.join(deploy, unit), path.join(place, unit));
    const files = units.map((unit) => path.join(place, unit));
    const verified = spawnSync("systemd-analyze", ["verify", ...files], { encoding: "utf8" });
    expect({ status: verified.status, said: verified.stderr }).toEqual({ status: 0, said: "" });
  });

  test("the daemon's unit is told by the daemon, and not started again for wrong settings", () => {
    const unit = read("coordinated.service");
    expect(unit).toMatch(/^Type=notify$/m);
    expect(unit).toMatch(/^NotifyAccess=all$/m);
    expect(unit).toMatch(/^WatchdogSec=/m);
    expect(unit).toMatch(/^RestartPreventExitStatus=77 78$/m);
  });
});

interface Manifest {
  apiVersion: string;
  kind: string;
}

type Model = new (data: object) => { validate(): void };

/** The class of a Kubernetes kind, which validates against its schema. */
function modelOf({ apiVersion, kind }: Manifest): Model {
  const found = require(`kubernetes-models/${apiVersion}`) as Record<string, Model | undefined>;
  const model = found[kind];
  if (model === undefined) throw new Error(`no schema of ${apiVersion} ${kind}`);
  return model;
}

const manifests = readdirSync(path.join(deploy, "kubernetes")).flatMap((name) =>
  parseAllDocuments(read(`kubernetes/${name}`)).map((document) => {
    const manifest = document.toJS() as Manifest;
    return { name, kind: manifest.kind, manifest };
  }),
);

describe("kubernetes", () => {
  test.each(manifests)("$name: the $kind is what its schema says", ({ manifest }) => {
    const model = modelOf(manifest);
    new model(manifest).validate();
  });

  test("the schemas are strict enough to find a mistake", () => {
    const wrong = { apiVersion: "apps/v1", kind: "Deployment", spec: { replicas: "two" } };
    const model = modelOf(wrong);
    expect(() => new model(wrong).validate()).toThrow(/replicas|selector/);
  });
});

/** The `coordinated` command lines in the files. */
const daemonCommands = (): [where: string, words: string[]][] => {
  const compose = parse(read("compose.yaml")) as { services: Record<string, { command?: string[] }> };
  const commands: [string, string[]][] = Object.entries(compose.services).map(([name, { command = [] }]) => [
    `compose.yaml ${name}`,
    command,
  ]);
  for (const { name, manifest } of manifests) {
    const spec = (
      manifest as unknown as { spec?: { template?: { spec?: { containers: { command: string[] }[] } } } }
    ).spec;
    for (const { command } of spec?.template?.spec?.containers ?? []) commands.push([name, command]);
  }
  const run = /^CMD (\[.*\])$/m.exec(read("Dockerfile"))?.[1] ?? "[]";
  commands.push(["Dockerfile", JSON.parse(run) as string[]]);
  const exec = /^ExecStart=\/usr\/bin\/env (.*)$/m.exec(read("coordinated.service"))?.[1] ?? "";
  commands.push(["coordinated.service", exec.split(" ")]);
  return commands.filter(([, words]) => words[0] === "coordinated");
};

describe("the daemon's command line", () => {
  test("there are four", () => expect(daemonCommands()).toHaveLength(4));

  test.each(daemonCommands())("in %s is one that it takes", (_where, [, ...words]) => {
    const line = readConfig(words, {});
    expect(line.kind).not.toBe("print");
    if (line.kind === "run") expect(line.warnings).toEqual([]);
  });
});

test.each([
  ["compose.yaml daemon", "compose.yaml"],
  ["daemon.yaml", "kubernetes/worker.yaml"],
])("the daemon of %s takes requests under the name that its workers use", (where, workers) => {
  const [, [, ...words]] = daemonCommands().find(([name]) => name === where)!;
  const line = readConfig(words, {});
  const [, host] = /https?:\/\/(\w+):5980/.exec(read(workers))!;
  expect(line.kind === "run" && line.config.allowHost).toContain(host);
});

describe("the container image", () => {
  const dockerfile = read("Dockerfile");

  test("is made from the tarball of this version, and so is what uses it", () => {
    expect(dockerfile).toContain(`ARG TARBALL=coordinate-${version}.tgz`);
    for (const name of ["compose.yaml", "kubernetes/daemon.yaml"])
      for (const [, tag] of read(name).matchAll(/image: coordinate:(\S+)/g)) expect(tag).toBe(version);
  });

  test("tasks in any folder of it can import the package", () => {
    const image = mkdtempSync(path.join(tmpdir(), "coordinate-image-"));
    onTestFinished(() => rmSync(image, { recursive: true, force: true }));
    const installed = path.join(image, "app", "node_modules", "coordinate");
    mkdirSync(installed, { recursive: true });
    mkdirSync(path.join(image, "tasks"));
    writeFileSync(path.join(installed, "index.js"), "");
    writeFileSync(path.join(image, "tasks", "tasks.mjs"), 'import "coordinate";\n');
    const [, to = "", at = ""] = /ln -s (\S+) (\S+)$/m.exec(dockerfile) ?? [];
    symlinkSync(path.join(image, to), path.join(image, at));
    execFileSync(process.execPath, [path.join(image, "tasks", "tasks.mjs")], { stdio: "pipe" });
  });

  test("does not run as root, has a health check, and every instruction is one", () => {
    const known = [
      "ARG",
      "CMD",
      "COPY",
      "ENV",
      "EXPOSE",
      "FROM",
      "HEALTHCHECK",
      "RUN",
      "USER",
      "VOLUME",
      "WORKDIR",
    ];
    const lines = dockerfile
      .replaceAll(/^#.*\n/gm, "")
      .replaceAll(/\\\n/g, " ")
      .split("\n")
      .filter((line) => line.trim() !== "");
    expect(lines.map((line) => line.split(" ")[0]).filter((word) => !known.includes(word ?? ""))).toEqual([]);
    expect(lines.findLastIndex((line) => line.startsWith("USER 1000:1000"))).toBeGreaterThan(
      lines.findLastIndex((line) => line.startsWith("RUN")),
    );
    expect(dockerfile).toMatch(/^HEALTHCHECK /m);
  });

  const noCompose =
    spawnSync("docker", ["compose", "version"]).status === 0 ? "" : "Docker Compose is not installed";
  test.skipIf(noCompose !== "")(`Compose reads its file${whySkipped(noCompose)}`, { timeout: 60_000 }, () => {
    const text = execFileSync("docker", ["compose", "-f", path.join(deploy, "compose.yaml"), "config"], {
      env: { ...process.env, POSTGRES_PASSWORD: "secret" },
      encoding: "utf8",
    });
    expect(text).toContain("postgres://coordinate:secret@postgres/coordinate");
  });
});
