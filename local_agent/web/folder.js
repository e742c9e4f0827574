/**
 * An agent's state for Node: in a folder, one JSON file for each document, for its owner alone; or in memory, for tests.
 *
 * @typedef {import("./store.js").Store} Store
 */

import { mkdir, open, readFile, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Refusal } from "./errors.js";

/** @type {Set<string>} folders that this process works in */
const held = new Set();

/** @implements {Store} */
export class FolderStore {
  keepsKeys = false;

  /** @param {string} folder */
  constructor(folder) {
    this.folder = folder;
  }

  async open() {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const path = join(this.folder, "lock");
    for (;;)
      try {
        const file = await open(path, "wx", 0o600);
        await file.writeFile(String(process.pid));
        await file.close();
        held.add(this.folder);
        return;
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw this.cannotWrite(error);
        const owner = Number(await readFile(path, "utf8").catch(() => "0"));
        if (held.has(this.folder) || (owner > 0 && owner !== process.pid && isAlive(owner)))
          throw new Refusal("bad-input", `process ${owner} works in ${this.folder}: end it, or name another folder`);
        await rm(path, { force: true }); // of a process that was killed
      }
  }

  /** @param {string} name */
  async read(name) {
    try {
      return JSON.parse(await readFile(this.path(name), "utf8"));
    } catch (error) {
      if (codeOf(error) === "ENOENT") return undefined;
      throw new Refusal("bad-data", `${this.path(name)} was damaged: put it back if you have a copy. Nothing was sent`);
    }
  }

  /** @param {string} name @param {any} value */
  async write(name, value) {
    try {
      const file = await open(this.path(`.${name}`), "w", 0o600);
      await file.writeFile(JSON.stringify(value));
      await file.sync();
      await file.close();
      await rename(this.path(`.${name}`), this.path(name));
      const folder = await open(this.folder, "r");
      await folder.sync();
      await folder.close();
    } catch (error) {
      throw this.cannotWrite(error);
    }
  }

  async erase() {
    for (const name of await readdir(this.folder)) if (name.endsWith(".json")) await rm(join(this.folder, name));
  }

  close() {
    if (held.delete(this.folder)) rm(join(this.folder, "lock"), { force: true }).catch(() => {});
  }

  /** @param {string} name */
  path(name) {
    return join(this.folder, `${name}.json`);
  }

  /** @param {unknown} error */
  cannotWrite(error) {
    return new Refusal("cannot-write", `nothing can be stored in ${this.folder} (${codeOf(error)}): nothing was sent`);
  }
}

/** @implements {Store} */
export class MemoryStore {
  keepsKeys = true;
  /** @type {Map<string, any>} */
  documents = new Map();
  async open() {}
  /** @param {string} name */
  async read(name) {
    return this.documents.get(name);
  }
  /** @param {string} name @param {any} value */
  async write(name, value) {
    this.documents.set(name, value);
  }
  async erase() {
    this.documents.clear();
  }
  close() {}
}

/** @param {unknown} error */
const codeOf = (error) => /** @type {NodeJS.ErrnoException} */ (error).code;

/** @param {number} owner */
function isAlive(owner) {
  try {
    process.kill(owner, 0);
    return true;
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}
