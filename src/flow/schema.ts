/** JSON Schemas of flow files and of work spec files, for editors. Generated from the table of known keys. */
import { longestSpanMs, workSpecKeys, type FieldKind, type WorkSpecField } from "../core/index.ts";
import { limitKeys } from "./flow-file.ts";

const draft = "http://json-schema.org/draft-07/schema#";

export function flowSchema(): Record<string, unknown> {
  return {
    $schema: draft,
    title: "A flow of Coordinate: work specs by name, in groups",
    type: "object",
    required: ["flows"],
    properties: {
      flows: { $ref: "#/definitions/group" },
      limits: {
        description: "Limits that work specs share by their key limits",
        type: "object",
        additionalProperties: {
          type: "object",
          properties: propertiesOf(limitKeys),
          additionalProperties: false,
        },
      },
      yakonfig_modules: {
        description: "Names of Python modules; accepted and ignored",
        type: "array",
        items: { type: "string" },
      },
    },
    definitions: {
      group: {
        description: "Work specs or groups by name; the name of a work spec in a group is GROUP.NAME",
        type: ["object", "null"],
        additionalProperties: { $ref: "#/definitions/entry" },
      },
      entry: {
        if: {
          anyOf: [
            { type: "object", required: ["min_gb"] },
            ...Object.keys(workSpecKeys)
              .filter((key) => key !== "min_gb")
              .map((key) => ({
                type: "object",
                required: [key],
                properties: { [key]: { not: { type: "object" } } },
              })),
          ],
        },
        then: { $ref: "#/definitions/spec" },
        else: { $ref: "#/definitions/group" },
      },
      spec: specDefinition(),
    },
  };
}

export function specSchema(): Record<string, unknown> {
  return { $schema: draft, title: "A work spec of Coordinate", ...specDefinition(), required: ["name"] };
}

function specDefinition(): Record<string, unknown> {
  return {
    description: "A work spec. Unknown keys are kept and passed to workers",
    type: "object",
    properties: propertiesOf(workSpecKeys),
  };
}

const propertiesOf = (keys: Readonly<Record<string, WorkSpecField>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(keys).map(([key, known]) => [key, schemaOf(known)]));

/** Allows null, which counts as absent everywhere. */
function schemaOf({ kind, help, keys, words }: WorkSpecField): Record<string, unknown> {
  const form = {
    description: help,
    ...forms[kind],
    ...(keys !== undefined && { properties: propertiesOf(keys) }),
  };
  if (words === undefined) return form;
  if (kind === "choice") return { ...form, enum: [...(words as readonly string[]), null] };
  const { description, ...number } = form;
  return { description, anyOf: [number, { enum: Object.keys(words) }] };
}

const time = { minimum: 0, pattern: "T.*(Z|[-+]\\d\\d:\\d\\d)$" };

const forms: Readonly<Record<FieldKind, Record<string, unknown>>> = {
  number: { type: ["number", "null"] },
  amount: { type: ["number", "null"], minimum: 0 },
  share: { type: ["number", "null"], minimum: 0, maximum: 1 },
  count: { type: ["integer", "null"], minimum: 0 },
  boolean: { type: ["boolean", "null"] },
  text: { type: ["string", "null"] },
  object: { type: ["object", "null"] },
  arguments: { type: ["array", "object", "null"] },
  duration: { type: ["number", "null"], minimum: 0, maximum: longestSpanMs / 1000 },
  time: { type: ["number", "string", "null"], ...time },
  times: { type: ["array", "null"], items: { type: ["number", "string"], ...time } },
  names: { type: ["array", "null"], items: { type: "string" } },
  weights: {
    type: ["object", "null"],
    additionalProperties: { type: "integer", minimum: 1, maximum: 1_000_000 },
    maxProperties: 1000,
  },
  choice: { type: ["string", "null"] },
};
