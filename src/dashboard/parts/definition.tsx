/** The definition of a work spec, and its fields, which can be edited in place. */
import { useState, type KeyboardEvent, type ReactNode } from "react";
import { type WorkSpecMeta, type WorkSpecMetaChange, hasRate } from "../../core/index.ts";
import type { SpecRow } from "../data/look.ts";
import { definitionOf, setMeta } from "../data/specs.ts";
import { count, duration, plural, rateWords, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "./icon.tsx";
import { CopyButton, Link, Name } from "./text.tsx";
import { Heads } from "./table.tsx";

interface Field {
  readonly key: string;
  readonly meta: keyof WorkSpecMetaChange;
  readonly show: (meta: WorkSpecMeta) => string;
  /** Parses the typed text into a change; null for an invalid value. */
  readonly read: (text: string) => WorkSpecMetaChange | null;
  readonly edit: (meta: WorkSpecMeta) => string;
}

const limit = (value: number): string => (value === 0 ? "none" : count(value));

const readNumber = (text: string, min = -Infinity): number | null => {
  const value = text.trim() === "none" ? 0 : Number(text);
  return text.trim() !== "" && Number.isFinite(value) && value >= min ? value : null;
};

function numberField(key: string, meta: "priority" | "weight" | "minGb", min?: number): Field {
  return {
    key,
    meta,
    show: (values) => String(values[meta]),
    edit: (values) => String(values[meta]),
    read: (text) => {
      const value = readNumber(text, min);
      return value === null ? null : { [meta]: value };
    },
  };
}

function limitField(key: string, meta: "maxRunning" | "maxGetwork" | "maxRetries"): Field {
  return {
    key,
    meta,
    show: (values) => limit(values[meta]),
    edit: (values) => String(values[meta]),
    read: (text) => {
      const value = readNumber(text, 0);
      return value === null || !Number.isInteger(value) ? null : { [meta]: value };
    },
  };
}

function switchField(key: string, meta: "paused" | "continuous"): Field {
  return {
    key,
    meta,
    show: (values) => String(values[meta]),
    edit: (values) => String(values[meta]),
    read: (text) => (text === "true" || text === "false" ? { [meta]: text === "true" } : null),
  };
}

const fields: readonly Field[] = [
  numberField("weight", "weight"),
  numberField("priority", "priority"),
  limitField("max_running", "maxRunning"),
  limitField("max_getwork", "maxGetwork"),
  limitField("max_retries", "maxRetries"),
  numberField("min_gb", "minGb", 0),
  switchField("paused", "paused"),
];

const continuousFields: readonly Field[] = [
  switchField("continuous", "continuous"),
  {
    key: "interval",
    meta: "intervalMs",
    show: ({ intervalMs }) => duration(intervalMs),
    edit: ({ intervalMs }) => String(intervalMs / 1000),
    read: (text) => {
      const seconds = readNumber(text, 0);
      return seconds === null ? null : { intervalMs: seconds * 1000 };
    },
  },
];

/** ", 3 units per turn for large, and 1 other weighted partition". */
function weightWords({ partitionWeights }: WorkSpecMeta): string {
  const weights = Object.entries(partitionWeights).sort((a, b) => b[1] - a[1]);
  const [first] = weights;
  if (first === undefined) return "";
  const rest = weights.length === 1 ? "" : `, and ${plural(weights.length - 1, "other weighted partition")}`;
  return `, ${plural(first[1], "unit")} per turn for ${visible(first[0]).slice(0, 40)}${rest}`;
}

export function Definition({ spec }: { spec: SpecRow }): ReactNode {
  const { ns, may, changed, undo } = useHere();
  const { row, meta, name } = spec;
  const definition = definitionOf(row);
  const shown = meta.canBeContinuous ? [...fields, ...continuousFields] : fields;
  const differs = ({ show }: Field): boolean => definition !== null && show(definition.meta) !== show(meta);
  const different = shown.filter(differs).length;
  const set = (field: Field, change: WorkSpecMetaChange): void => {
    const before = { [field.meta]: meta[field.meta] } as WorkSpecMetaChange;
    void undo.run({
      did: `${field.key} of ${name} set to ${field.show({ ...meta, ...change })} (was ${field.show(meta)})`,
      act: () => setMeta(ns, name, change),
      back: () => setMeta(ns, name, before),
      after: () => changed("specs", "counts", "explain"),
    });
  };
  const fixed: readonly (readonly [string, ReactNode])[] = [
    [
      "then",
      meta.nextWorkSpecName !== "" && (
        <Link to={{ ns, page: "spec", spec: meta.nextWorkSpecName }} className="l">
          <Name text={meta.nextWorkSpecName} max={28} />
        </Link>
      ),
    ],
    ["max_running_per_partition", meta.maxRunningPerPartition > 0 && count(meta.maxRunningPerPartition)],
    ["rate", hasRate(meta.rate) && rateWords(meta.rate)],
    ["rate_per_partition", hasRate(meta.ratePerPartition) && rateWords(meta.ratePerPartition)],
    ["order", meta.order !== "" && "one unit of a partition at a time"],
    ["fair", meta.fair !== "" && `partitions take turns${weightWords(meta)}`],
    [
      "limits",
      meta.limits.length > 0 && (
        <Link to={{ ns, page: "limits" }} className="l">
          <Name text={meta.limits.join(", ")} max={40} />
        </Link>
      ),
    ],
    ["runtime", meta.runtime !== "" && <Name text={meta.runtime} max={28} />],
    ["retention", retentionWords(meta)],
  ];
  const text = definition === null ? "" : JSON.stringify(definition.data, printable, 2);
  return (
    <section className="card def" aria-label="Definition and live values">
      <header>
        <h2>Definition and live values</h2>
      </header>
      <table>
        <Heads of={["Key", { text: "Defined", className: "r" }, { text: "Live", className: "r" }]} />
        <tbody>
          {shown.map((field) => (
            <tr key={field.key} className={differs(field) ? "chg" : ""}>
              <td>
                <code>{field.key}</code>
                {differs(field) && may("write") && definition !== null && (
                  <button
                    type="button"
                    className="by plain"
                    onClick={() => set(field, { [field.meta]: definition.meta[field.meta] })}
                  >
                    Reset to {field.show(definition.meta)}
                  </button>
                )}
              </td>
              <td className="r mid">{definition === null ? "–" : field.show(definition.meta)}</td>
              <td className="r">
                {may("write") ? (
                  <Editable field={field} meta={meta} onSet={(change) => set(field, change)} />
                ) : (
                  field.show(meta)
                )}
              </td>
            </tr>
          ))}
          {fixed.map(([key, value]) =>
            value === false || value === null ? null : (
              <tr key={key}>
                <td>
                  <code>{key}</code>
                </td>
                <td className="r" colSpan={2}>
                  {value}
                </td>
              </tr>
            ),
          )}
        </tbody>
      </table>
      <footer>
        {different > 0
          ? `${plural(different, "live value")} ${different === 1 ? "differs" : "differ"} from the definition. Setting the work spec again resets live values, unless keepMeta is set.`
          : "Live values match the definition."}
      </footer>
      <details>
        <summary>
          <Icon name="right" />
          Full definition
        </summary>
        <div className="raw">
          <CopyButton text={text} />
          <pre>{visibleJson(text)}</pre>
        </div>
      </details>
    </section>
  );
}

const visibleJson = (text: string): string => text.split("\n").map(visible).join("\n");

/** Replaces values of CBOR data that JSON cannot hold. */
function printable(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  return value instanceof Uint8Array ? `${value.length} bytes` : value;
}

function retentionWords({ retention }: WorkSpecMeta): string | null {
  const words = (["finished", "failed"] as const).flatMap((status) => {
    const kept = retention[status];
    if (kept === undefined) return [];
    const parts = [
      kept.maxAgeMs !== undefined && duration(kept.maxAgeMs),
      kept.maxCount !== undefined && `the newest ${count(kept.maxCount)}`,
    ].filter((part) => part !== false);
    return [`${status} ${parts.join(", ")}`];
  });
  return words.length === 0 ? null : words.join(", ");
}

/** Click, type, Enter. Escape cancels. */
function Editable({
  field,
  meta,
  onSet,
}: {
  field: Field;
  meta: WorkSpecMeta;
  onSet: (change: WorkSpecMetaChange) => void;
}): ReactNode {
  const [text, setText] = useState<string | null>(null);
  const isSwitch = typeof meta[field.meta] === "boolean";
  if (isSwitch) {
    return (
      <button
        type="button"
        className="ed"
        aria-label={`${field.key}: ${field.show(meta)}; switch`}
        onClick={() => onSet({ [field.meta]: meta[field.meta] !== true })}
      >
        {field.show(meta)}
        <Icon name="edit" />
      </button>
    );
  }
  if (text === null) {
    return (
      <button
        type="button"
        className="ed"
        aria-label={`${field.key}: ${field.show(meta)}; change`}
        onClick={() => setText(field.edit(meta))}
      >
        {field.show(meta)}
        <Icon name="edit" />
      </button>
    );
  }
  const change = field.read(text);
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") setText(null);
    if (event.key !== "Enter" || change === null) return;
    if (text !== field.edit(meta)) onSet(change);
    setText(null);
  };
  return (
    <input
      className={change === null ? "edit bad" : "edit"}
      aria-label={field.key}
      aria-invalid={change === null}
      autoFocus
      value={text}
      onChange={(event) => setText(event.target.value)}
      onKeyDown={onKey}
      onBlur={() => setText(null)}
    />
  );
}
