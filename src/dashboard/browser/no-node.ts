/** Replaces the Node transports of the client in the bundle: the dashboard gives the client its own transport. */
const noNode = (): never => {
  throw new Error("there is no node:http in a browser");
};

export { noNode as callTransport, noNode as endpointOf, noNode as nodeTransport };
