/** Lines of logs for people. Names, messages and output of programs are not trusted: a terminal would interpret what they contain. */

/** Control and invisible characters, direction marks and line breaks. A tab is harmless. */
const unsafe = /(?!\t)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** The text as one line that cannot change the terminal, deceive the reader or look like another line. */
export const escapeLine = (text: string): string =>
  text.replace(unsafe, (one) => `\\u{${one.codePointAt(0)?.toString(16) ?? ""}}`);
