/** Types of a browser's store. */

import { Store } from "./agent.js";

export interface BrowserStore extends Store {}
export class BrowserStore {
  constructor(name: string);
}
