/**
 * The schemas of the records, as data: identifier, fields, defaults, and which fields are indexed. Times are epoch milliseconds,
 * 0 is unset; `timeout` is in seconds, 0 is none.
 */
export interface SchemaField {
  readonly name: string;
  readonly type: "text" | "time" | "number" | "boolean" | "json" | "text list" | "reference";
  readonly default: unknown;
  /** Records can be found by this field without reading all of them. */
  readonly indexed: boolean;
}

export interface Schema {
  readonly url: string;
  readonly fields: readonly SchemaField[];
}

const field = (name: string, type: SchemaField["type"], value: unknown, indexed = false): SchemaField => ({
  name,
  type,
  default: value,
  indexed,
});

export const jobSchema: Schema = {
  url: "jumpscale.myjobs.job",
  fields: [
    field("id", "text", "", true),
    field("name", "text", "", true),
    field("category", "text", "", true),
    field("time_start", "time", 0, true),
    field("time_stop", "time", 0),
    field("state", "text", "NEW", true),
    field("error_cat", "text", "NA"),
    field("timeout", "number", 0),
    field("action_id", "reference", "", true),
    field("args", "json", []),
    field("kwargs", "json", {}),
    field("result", "json", null),
    field("error", "json", null),
    field("return_queues", "text list", []),
    field("dependencies", "text list", []),
    field("createdAt", "time", 0, true),
    field("code_version", "text", ""),
  ],
};

export const actionSchema: Schema = {
  url: "jumpscale.myjobs.action",
  fields: [
    field("key", "text", "", true),
    field("kind", "text", "module"),
    field("code", "text", ""),
    field("methodname", "text", ""),
    field("module", "text", ""),
    field("version", "text", ""),
    field("createdAt", "time", 0),
  ],
};

export const workerSchema: Schema = {
  url: "jumpscale.myjobs.worker",
  fields: [
    field("id", "text", "", true),
    field("nr", "number", 0),
    field("type", "text", "process"),
    field("timeout", "number", 3600),
    field("time_start", "time", 0),
    field("last_update", "time", 0),
    field("current_job", "reference", ""),
    field("halt", "boolean", false),
    field("running", "boolean", false),
    field("state", "text", "NEW"),
    field("error", "text", ""),
    field("pid", "number", 0),
  ],
};

export const schemas: readonly Schema[] = [jobSchema, actionSchema, workerSchema];
