/** Takes the place of the client's Node transports in the bundle: the dashboard gives the client a transport of its own. */
const noNode = (): never => {
  throw new Error("there is no node:http in a browser");
};

export { noNode as callTransport, noNode as endpointOf, noNode as nodeTransport };
