/** Where a unit comes from, and the units that it created. */
import { useQuery } from "@tanstack/react-query";
import { useMemo, type ReactNode } from "react";
import { readOutputs, type AttemptRow, type WorkUnitRow } from "../../core/index.ts";
import { client } from "../data/connection.ts";
import { unitsNamed } from "../data/units.ts";
import { count } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "./icon.tsx";
import { AttemptGlyph, StatusGlyph } from "./status.tsx";
import { Link, Name } from "./text.tsx";

interface Ancestor {
  readonly attempt: AttemptRow;
}

/**
 * The ancestors of the unit, through the attempts that created each, as far as they are kept; and the units that its output
 * created.
 */
export function Lineage({ unit }: { unit: WorkUnitRow }): ReactNode {
  const { ns, look } = useHere();
  const above = useQuery({
    queryKey: ["unit", ns, "above", unit.id],
    queryFn: async () => {
      const found: Ancestor[] = [];
      for (let origin = unit.origin; origin !== null && found.length < 8;) {
        const [attempt] = await client.getAttempts(ns, [origin]);
        if (attempt === undefined || attempt === null) break;
        found.unshift({ attempt });
        const [parent] = await unitsNamed(ns, attempt.workSpec, [attempt.workUnit]);
        origin = parent?.origin ?? null;
      }
      return found;
    },
    staleTime: 60_000,
  });
  const then = look.byName.get(unit.workSpec)?.meta.nextWorkSpecName ?? "";
  const outputs = useMemo(
    () =>
      unit.status === "finished" && then !== "" ? readOutputs(unit.data).units.map(({ name }) => name) : [],
    [unit.status, unit.data, then],
  );
  const below = useQuery({
    queryKey: ["unit", ns, "below", unit.id, outputs.length],
    queryFn: () => unitsNamed(ns, then, outputs.slice(0, 20)),
    enabled: outputs.length > 0,
  });
  if (unit.origin === null && then === "") return null;
  return (
    <section className="card" aria-label="Related units">
      <header>
        <h2>Related units</h2>
      </header>
      <ol className="lin">
        {unit.origin === null ? (
          <li>
            <span className="t-available">
              <Icon name="plus" />
            </span>
            <div>
              <span>Added by a client</span>
              <span className="dim">not created by another unit</span>
            </div>
          </li>
        ) : (
          (above.data ?? []).map(({ attempt }) => (
            <li key={attempt.id}>
              <AttemptGlyph status={attempt.status} />
              <div>
                <Link to={{ ns, page: "unit", spec: attempt.workSpec, unit: attempt.workUnit }} className="l">
                  <Name text={attempt.workUnit} max={40} mono />
                </Link>
                <span className="dim">
                  <Name text={attempt.workSpec} />, attempt {attempt.number}
                </span>
              </div>
            </li>
          ))
        )}
        {unit.origin !== null && above.data?.length === 0 && (
          <li>
            <span className="t-available">
              <Icon name="flow" />
            </span>
            <div>
              <span>Created by attempt {unit.origin}</span>
              <span className="dim">which is no longer stored</span>
            </div>
          </li>
        )}
        <li>
          <StatusGlyph status={unit.status} />
          <div>
            <b>This unit</b>
            <span className="dim">
              <Name text={unit.workSpec} />, {unit.status}
            </span>
          </div>
        </li>
        {then !== "" &&
          (outputs.length === 0 ? (
            <li>
              <StatusGlyph status="available" />
              <div>
                <span>
                  No units in <Name text={then} />
                  {unit.status !== "finished" && " yet"}
                </span>
                <span className="dim">
                  {unit.status === "finished" ? "it had no output" : "they are created when it finishes"}
                </span>
              </div>
            </li>
          ) : (
            <>
              {outputs.slice(0, 8).map((name, i) => {
                const made = below.data?.[i];
                return (
                  <li key={name}>
                    {made === undefined || made === null ? (
                      <StatusGlyph status="available" />
                    ) : (
                      <StatusGlyph status={made.status} />
                    )}
                    <div>
                      <Link to={{ ns, page: "unit", spec: then, unit: name }} className="l">
                        <Name text={name} max={40} mono />
                      </Link>
                      <span className="dim">
                        <Name text={then} />,{" "}
                        {made === undefined ? "…" : made === null ? "deleted" : made.status}
                      </span>
                    </div>
                  </li>
                );
              })}
              {outputs.length > 8 && (
                <li>
                  <span />
                  <div>
                    <span className="dim">and {count(outputs.length - 8)} more</span>
                  </div>
                </li>
              )}
            </>
          ))}
      </ol>
    </section>
  );
}
