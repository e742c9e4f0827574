/** Types of the stores of Node: a folder, and the memory alone. */

import { Store } from "./agent.js";

export interface FolderStore extends Store {}
export class FolderStore {
  constructor(folder: string);
}
export interface MemoryStore extends Store {}
export class MemoryStore {}
