export { didYouMean, nearest } from "../config/did-you-mean.ts";
