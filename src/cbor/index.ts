/** The CBOR-RPC interface: serves existing Python clients and workers unchanged, and the verbs on the same port. */
export { connectCbor, type CborClientOptions } from "./client.ts";
export { callMethod, methodNames } from "./direct.ts";
export type { LegacyFencing } from "./fencing.ts";
export { MalformedError } from "./scan.ts";
export {
  defaultPort,
  listenCborRpc,
  type CborRpcLimits,
  type CborRpcListener,
  type CborRpcOptions,
  type RpcTokens,
} from "./server.ts";
