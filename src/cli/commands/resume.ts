/** `coordinate resume`: undoes `pause`. */
import { pausing } from "./pause.ts";

export default pausing(false);
