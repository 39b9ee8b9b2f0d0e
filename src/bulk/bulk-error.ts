/** Input that cannot be read, or a load that cannot go on: told in a sentence, with the file's name and the line. */
export class BulkError extends Error {
  override readonly name = "BulkError";
}
