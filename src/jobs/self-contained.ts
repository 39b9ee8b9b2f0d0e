/**
 * Checks inline functions: the source must be a function that can be compiled elsewhere and uses no names from its surroundings.
 * The check runs before a job is stored, so that a certain error is reported at once.
 *
 * A name that is declared anywhere in the function counts as declared everywhere in it. So no valid function is refused. An
 * invalid one that passes the check fails when it runs, with a ReferenceError.
 */
import { parseExpressionAt, type AnyNode, type Expression, type Node, type Pattern } from "acorn";
import { CoordinateError } from "../core/index.ts";

export interface InlineFunction {
  readonly code: string;
  /** The name of the function, or "anonymous". */
  readonly methodname: string;
}

/** Larger functions belong into a module. */
const longestCode = 256 * 1024;

/** The global names of Node at the time this file was loaded. */
const globals: ReadonlySet<string> = new Set([
  ...Object.getOwnPropertyNames(globalThis),
  "arguments",
  "undefined",
]);

/** Throws `bad_argument` with the reason and, where possible, a way to fix it. */
export function inlineFunction(fn: (...args: never[]) => unknown): InlineFunction {
  const code = Function.prototype.toString.call(fn);
  const refuse = (why: string): CoordinateError =>
    new CoordinateError("bad_argument", `function ${fn.name === "" ? "(anonymous)" : fn.name}: ${why}`);

  if (/\{\s*\[native code\]\s*\}$/.test(code))
    throw refuse(
      "bound and native functions have no source; write a function that calls it, or use { module, export }",
    );
  if (code.length > longestCode)
    throw refuse(
      `its source has ${code.length} characters, at most ${longestCode} are allowed; use { module, export }`,
    );
  const parsed = parse(code);
  if (parsed === null)
    throw refuse("its source cannot be compiled on its own; write methods, getters and setters as functions");
  if (parsed.type === "ClassExpression") throw refuse("a job cannot call a class");
  if (parsed.type !== "FunctionExpression" && parsed.type !== "ArrowFunctionExpression")
    throw refuse("its source is not a function");
  if (parsed.generator) throw refuse("a generator returns no result; write a function");
  const free = freeNames(parsed);
  if (free.length > 0)
    throw refuse(
      `it uses ${free.join(", ")} from its surroundings, which do not exist where the job runs; ` +
        `pass values as args, import() modules inside, or use { module, export }` +
        (free.includes("__name") ? " (__name comes from a bundler: turn keepNames off)" : ""),
    );
  return { code, methodname: fn.name === "" ? "anonymous" : fn.name };
}

function parse(code: string): Expression | null {
  try {
    const text = `(${code}\n)`;
    const found = parseExpressionAt(text, 1, { ecmaVersion: "latest", sourceType: "script" });
    // refuse a list of expressions, or anything after the function
    return text.slice(found.end).trim() === ")" ? found : null;
  } catch {
    return null; // the parser's position refers to generated text; the caller reports what may be wrong
  }
}

/** Names that are used but declared nowhere, in the order of their use. */
function freeNames(root: AnyNode): string[] {
  const declared = new Set<string>();
  const used = new Set<string>();
  visit(root, declared, used);
  return [...used].filter((name) => !declared.has(name) && !globals.has(name));
}

function visit(node: AnyNode, declared: Set<string>, used: Set<string>): void {
  const declare = (pattern: Pattern): void => names(pattern, declared);
  switch (node.type) {
    case "Identifier":
      used.add(node.name);
      return;
    case "FunctionDeclaration":
    case "FunctionExpression":
    case "ArrowFunctionExpression":
      if (node.id) declared.add(node.id.name);
      node.params.forEach(declare);
      break;
    case "ClassDeclaration":
    case "ClassExpression":
      if (node.id) declared.add(node.id.name);
      break;
    case "VariableDeclarator":
      declare(node.id);
      break;
    case "CatchClause":
      if (node.param) declare(node.param);
      break;
    case "MemberExpression":
      visit(node.object, declared, used);
      if (node.computed) visit(node.property, declared, used);
      return;
    case "Property":
    case "MethodDefinition":
    case "PropertyDefinition":
      if (node.computed) visit(node.key, declared, used);
      if (node.value) visit(node.value, declared, used);
      return;
    case "LabeledStatement":
      visit(node.body, declared, used);
      return;
    case "BreakStatement":
    case "ContinueStatement":
    case "MetaProperty":
      return;
    default:
  }
  for (const child of childrenOf(node)) visit(child, declared, used);
}

/** Adds the names that a pattern binds. Names that are used in its default values are found by `visit`. */
function names(pattern: Pattern, into: Set<string>): void {
  switch (pattern.type) {
    case "Identifier":
      into.add(pattern.name);
      break;
    case "ObjectPattern":
      for (const property of pattern.properties)
        names(property.type === "RestElement" ? property.argument : property.value, into);
      break;
    case "ArrayPattern":
      for (const element of pattern.elements) if (element !== null) names(element, into);
      break;
    case "RestElement":
      names(pattern.argument, into);
      break;
    case "AssignmentPattern":
      names(pattern.left, into);
      break;
    default:
  }
}

function* childrenOf(node: AnyNode): Generator<AnyNode> {
  for (const value of Object.values(node) as unknown[]) {
    if (Array.isArray(value)) {
      for (const item of value) if (isNode(item)) yield item;
    } else if (isNode(value)) yield value;
  }
}

const isNode = (value: unknown): value is AnyNode =>
  typeof value === "object" && value !== null && typeof (value as Partial<Node>).type === "string";
