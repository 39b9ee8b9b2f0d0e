/** The JSON Schema of configuration files, for editors, generated from the table of settings. */
import { sectionNames, settingsOf, type Setting } from "./settings.ts";

export function configurationSchema(): Record<string, unknown> {
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Configuration of Coordinate",
    type: "object",
    properties: Object.fromEntries(
      sectionNames.map((section) => [
        section,
        {
          type: ["object", "null"],
          additionalProperties: false,
          properties: Object.fromEntries(
            Object.entries(settingsOf(section)).flatMap(([key, setting]) =>
              [key, ...(setting.aliases ?? [])].map((name) => [name, schemaOf(setting)]),
            ),
          ),
        },
      ]),
    ),
  };
}

function schemaOf(setting: Setting): Record<string, unknown> {
  const description = setting.help;
  // leave out a default that depends on this machine
  const own = setting.default !== "" && !String(setting.default).startsWith("/");
  return {
    description,
    ...typeOf(setting),
    ...(own && { default: setting.default }),
  };
}

function typeOf({ type, oneOf }: Setting): Record<string, unknown> {
  switch (type) {
    case "text":
      return oneOf === undefined ? { type: "string" } : { enum: oneOf };
    case "list":
      return { anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] };
    case "count":
      return { type: "integer", minimum: 0 };
    case "number":
      return { type: "number", minimum: 0 };
    case "flag":
      return { type: "boolean" };
  }
}
