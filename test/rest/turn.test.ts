import { describe, expect, test } from "vitest";
import { Turn } from "../../src/rest/turn.ts";

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("answers of one turn", () => {
  test("a lone request is answered at once, in every turn", async () => {
    const turn = new Turn();
    for (let i = 0; i < 3; i++) {
      turn.arrived();
      expect(turn.end()).toBeUndefined();
      await nextTurn();
    }
  });

  test("requests that arrive in one turn are answered together at its end", async () => {
    const turn = new Turn();
    const sent: string[] = [];
    const answer = async (name: string): Promise<void> => {
      await turn.end();
      sent.push(name);
    };
    turn.arrived();
    expect(turn.end()).toBeUndefined();
    turn.arrived();
    const second = answer("second");
    turn.arrived();
    const third = answer("third");
    await Promise.resolve();
    expect(sent).toEqual([]);
    await Promise.all([second, third]);
    expect(sent).toEqual(["second", "third"]);
    // a response in a later turn is not delayed
    expect(turn.end()).toBeUndefined();
  });
});
