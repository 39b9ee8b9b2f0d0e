/** Takes the place of the client's Node transport in the bundle: the dashboard gives the client a transport of its own. */
export const nodeTransport = (): never => {
  throw new Error("there is no node:http in a browser");
};
