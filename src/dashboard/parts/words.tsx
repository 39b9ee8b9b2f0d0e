/** A sentence about causes: words, emphasised evidence, and code. */
import type { ReactNode } from "react";
import type { Words } from "../attention.ts";
import { middle, visible } from "../format.ts";

export function Sentence({ words }: { words: Words }): ReactNode {
  return words.map((word, i) =>
    typeof word === "string" ? (
      word
    ) : "strong" in word ? (
      <b key={i}>{word.strong}</b>
    ) : (
      <code key={i}>{middle(visible(word.code), 48)}</code>
    ),
  );
}
