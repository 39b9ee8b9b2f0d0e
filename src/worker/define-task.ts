/** Tasks with types for the data of their units and for their results. */
import { CoordinateError, describeValue, isCoordinateError, type DataObject } from "../core/index.ts";
import { checkedBy, SpecDefinition } from "../objects/index.ts";
import { fail, type Decision } from "./outcome.ts";
import type { Unit, UnitContext, UnitTask } from "./task.ts";

/** A task that knows the name it runs under. */
export type DefinedTask = UnitTask & { readonly taskName: string };

// `void` is the return type of functions that return nothing
/* eslint-disable @typescript-eslint/no-invalid-void-type */
/** A task that returns nothing makes the data of its unit the result: allowed where the data has the type of a result. */
type Nothing<Data, Result> = [Data] extends [Result] ? void : DataObject extends Result ? void : never;

export type TypedTask<Data extends object, Result extends object> = (
  unit: TypedUnit<Data, Result>,
  context: UnitContext,
) => Promise<Result | Decision | Nothing<Data, Result>> | Result | Decision | Nothing<Data, Result>;
/* eslint-enable @typescript-eslint/no-invalid-void-type */

/** A unit whose data has the type of its work spec. */
export type TypedUnit<Data extends object, Result extends object> = Pick<
  Unit<Data, Result>,
  "name" | "data" | "attempt" | "beganAt"
>;

/**
 * Makes a task for a work spec of `defineSpec`. The data of its units and its result have the types of the spec. Data or a result
 * that the spec's schema rejects fails the unit without a retry, which would end the same way.
 */
export function defineTask<Data extends object, Result extends object>(
  definition: SpecDefinition<Data, Result>,
  work: TypedTask<NoInfer<Data>, NoInfer<Result>>,
): DefinedTask {
  if (!((definition as unknown) instanceof SpecDefinition))
    throw new CoordinateError(
      "bad_argument",
      `definition: expected a work spec of defineSpec, got ${describeValue(definition)}`,
    );
  const { name, spec, schemas } = definition;
  const taskName = typeof spec.task === "string" && spec.task !== "" ? spec.task : name;
  // the types are those that the spec declares; without schemas nothing checks the stored data
  const plain = work as unknown as UnitTask;
  if (schemas.data === undefined && schemas.result === undefined)
    return Object.assign((unit: Unit, context: UnitContext) => plain(unit, context), { taskName });
  const checked = async (unit: Unit, context: UnitContext): Promise<object | undefined> => {
    const data = await refusedFails(schemas.data, unit.data, "data");
    const { attempt, beganAt } = unit;
    const result = await plain({ name: unit.name, attempt, beganAt, data } as Unit, context);
    if (result === undefined || result === null) return undefined;
    if (result instanceof Error) throw result;
    await refusedFails(schemas.result, result, "result");
    return result;
  };
  return Object.assign(checked, { taskName });
}

async function refusedFails(
  schema: Parameters<typeof checkedBy>[0] | undefined,
  value: object,
  what: string,
): Promise<unknown> {
  if (schema === undefined) return value;
  try {
    return await checkedBy(schema, value, what);
  } catch (error) {
    throw isCoordinateError(error, "bad_data") ? fail(error.message) : error;
  }
}

export const isDefined = (task: unknown): task is DefinedTask =>
  typeof task === "function" && "taskName" in task && typeof task.taskName === "string";
