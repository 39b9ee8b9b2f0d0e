/** The version of this package. A test checks that package.json has the same. */
export const version = "0.2.0";
