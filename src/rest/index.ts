// what routes are described with: a folder that adds routes needs no package for it
export { Type, type TSchema } from "@sinclair/typebox";
export { includesScope, openAccess, type Access, type Identity } from "./access.ts";
export { around, type Step } from "./around.ts";
export { coalesce } from "./coalesce.ts";
export { EventLog, eventRoutes, observe, type CoordinateEvent, type EventSink } from "./events.ts";
export { HttpError, type HttpErrorCode } from "./errors.ts";
export { listen, type Listener, type ListenOptions } from "./listen.ts";
export { openApi } from "./openapi.ts";
export type { Answer, Call, Route } from "./route.ts";
export { restServer, type RestServer, type RestServerOptions } from "./server.ts";
export { streamRoutes } from "./stream-routes.ts";
export { isWait, scopes, verbNames, verbs, type Scope, type Verb } from "./verbs.ts";
export * from "./client.ts";
