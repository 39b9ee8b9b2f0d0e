/** Pauses and resumes work specs. */
import { useCallback } from "react";
import { isTripped } from "../../core/index.ts";
import type { SpecRow } from "../data/look.ts";
import { setMeta } from "../data/specs.ts";
import { useHere } from "../here.ts";

/** Whether a work spec hands out nothing, or less, until it is resumed. */
export const isHeld = ({ meta }: SpecRow): boolean => meta.paused || isTripped(meta);

export function usePausing(): (spec: SpecRow, paused: boolean) => void {
  const { ns, changed, undo } = useHere();
  return useCallback(
    ({ name, meta }, paused) => {
      void undo.run({
        did: paused
          ? `${name} paused: running units continue, no more are created or handed out`
          : `${name} resumed`,
        act: () => setMeta(ns, name, { paused }),
        // resuming closes the breaker, and only failures open it again
        back: isTripped(meta) ? null : () => setMeta(ns, name, { paused: !paused }),
        after: () => changed("specs", "counts", "explain"),
      });
    },
    [ns, changed, undo],
  );
}
