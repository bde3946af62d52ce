// The names of a module as one value. A module that exports "then" would be taken for a promise.
import * as module from "./superstep-bundle.mjs";
export { module };
