/** The JSON Schema of flow files and of files of one work spec, for editors: made from the table of known keys. */
import type { WorkSpecKey } from "../core/index.ts";
import { knownKeys } from "./spec-entry.ts";

const draft = "http://json-schema.org/draft-07/schema#";

export function flowSchema(): Record<string, unknown> {
  return {
    $schema: draft,
    title: "A flow of Coordinate: work specs by name, in groups",
    type: "object",
    required: ["flows"],
    properties: {
      flows: { $ref: "#/definitions/group" },
      yakonfig_modules: {
        description: "Names of Python modules; accepted, and without a meaning here",
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
            ...Object.keys(knownKeys)
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
    description: "A work spec. Unknown keys are kept and handed to workers",
    type: "object",
    properties: propertiesOf(knownKeys),
  };
}

const propertiesOf = (keys: Readonly<Record<string, WorkSpecKey>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(keys).map(([key, known]) => [key, schemaOf(known)]));

/** Null counts as absent, as everywhere. */
function schemaOf({ kind, help, keys }: WorkSpecKey): Record<string, unknown> {
  const description = help;
  switch (kind) {
    case "number":
      return { description, type: ["number", "null"] };
    case "amount":
      return { description, type: ["number", "null"], minimum: 0 };
    case "count":
      return { description, type: ["integer", "null"], minimum: 0 };
    case "boolean":
      return { description, type: ["boolean", "null"] };
    case "text":
      return { description, type: ["string", "null"] };
    case "arguments":
      return { description, type: ["array", "object", "null"] };
    case "object":
      return {
        description,
        type: ["object", "null"],
        ...(keys !== undefined && { properties: propertiesOf(keys) }),
      };
  }
}
