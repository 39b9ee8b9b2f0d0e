/** Input that cannot be read, or a load that cannot go on. The message is one sentence with the name of the file and the line. */
export class BulkError extends Error {
  override readonly name = "BulkError";
}
