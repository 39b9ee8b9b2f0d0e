/** The version of this package; the same as in package.json, which a test sees to. */
export const version = "0.2.0";
