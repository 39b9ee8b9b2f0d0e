import js from "@eslint/js";
import { defineConfig, globalIgnores } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  // The peers of bench, and its Python; the site, which has packages of its own.
  globalIgnores(["dist/", "coverage/", "bench/node_modules/", "bench/python/", "site/"]),
  {
    extends: [
      js.configs.recommended,
      tseslint.configs.strictTypeChecked,
      tseslint.configs.stylisticTypeChecked,
    ],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      // On, beyond the presets.
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/no-import-type-side-effects": "error",
      eqeqeq: "error",

      // In the presets, named here because the project leans on them.
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/no-misused-promises": "error",

      // On, with options.
      // A written default handles the rest (`switch (typeof value)`); a switch over states has none and must name them all.
      "@typescript-eslint/switch-exhaustiveness-check": [
        "error",
        { considerDefaultExhaustiveForUnions: true },
      ],
      // A leading underscore says "required by the signature, not used".
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      // Numbers and booleans print as they are meant; objects, null and undefined do not.
      "@typescript-eslint/restrict-template-expressions": [
        "error",
        { allowNumber: true, allowBoolean: true },
      ],
      // `() => list.forEach(f)` and `return done()` in a void function are clear; a void value in an expression is not.
      "@typescript-eslint/no-confusing-void-expression": [
        "error",
        { ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true },
      ],
      // `while (true)` with a return inside is the plain way to write a worker's loop.
      "@typescript-eslint/no-unnecessary-condition": [
        "error",
        { allowConstantLoopConditions: "only-allowed-literals" },
      ],

      // Off.
      // The type checker finds undefined names, in the .js and .mjs files too, and knows Node's globals.
      "no-undef": "off",
      // Names, JSON text and CBOR have control characters that must be matched; the rule takes each for a slip of the pen.
      "no-control-regex": "off",
      // noUncheckedIndexedAccess types rows[i] as possibly undefined even where the loop bounds i; `!` says that it is not.
      "@typescript-eslint/no-non-null-assertion": "off",
      // A store whose verb needs no await is still async: its throw must arrive as a rejection, as in every other store.
      "@typescript-eslint/require-await": "off",
      // The two mean different things here: an interface is a promise to implement, a type is a plain row, and only a
      // type is assignable to Record<string, unknown>.
      "@typescript-eslint/consistent-type-definitions": "off",
    },
  },
  {
    files: ["test/**"],
    rules: {
      // Fakes and callbacks that do nothing are what many tests are about.
      "@typescript-eslint/no-empty-function": "off",
    },
  },
);
