/** An agent's state for Node: in a folder, one JSON file a document, for its owner alone; or in memory, for tests. */

import { mkdir, open, readFile, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Refusal, fail } from "./values.js";

/** @typedef {import("./types/agent.d.ts").Store} Store */

/** @type {Set<string>} folders that this process works in */
const held = new Set();

/** @implements {Store} */
export class FolderStore {
  keepsKeys = false;

  constructor(/** @type {string} */ folder) {
    this.folder = folder;
  }

  async open() {
    const path = join(this.folder, "lock");
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    for (;;)
      try {
        await written(path, "wx", String(process.pid));
        held.add(this.folder);
        return;
      } catch (/** @type {any} */ error) {
        if (error.code !== "EEXIST") throw this.cannotWrite(error);
        const owner = Number(await readFile(path, "utf8").catch(() => "0"));
        if (held.has(this.folder) || (owner > 0 && owner !== process.pid && isAlive(owner)))
          fail("bad-input", `process ${owner} works in ${this.folder}: end it, or name another folder`);
        await rm(path, { force: true }); // of a process that was killed
      }
  }

  async read(/** @type {string} */ name) {
    const path = this.path(name);
    try {
      return JSON.parse(await readFile(path, "utf8"));
    } catch (/** @type {any} */ error) {
      if (error.code === "ENOENT") return undefined;
      fail("bad-data", `${path} was damaged: put it back if you have a copy. Nothing was sent`);
    }
  }

  async write(/** @type {string} */ name, /** @type {any} */ value) {
    try {
      await written(this.path(`.${name}`), "w", JSON.stringify(value));
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

  path(/** @type {string} */ name) {
    return join(this.folder, `${name}.json`);
  }

  cannotWrite(/** @type {any} */ { code }) {
    return new Refusal("cannot-write", `nothing can be stored in ${this.folder} (${code}): nothing was sent`);
  }
}

/** @implements {Store} */
export class MemoryStore {
  keepsKeys = true;
  /** @type {Map<string, any>} */
  documents = new Map();
  async open() {}
  async read(/** @type {string} */ name) {
    return this.documents.get(name);
  }
  async write(/** @type {string} */ name, /** @type {any} */ value) {
    this.documents.set(name, value);
  }
  async erase() {
    this.documents.clear();
  }
  close() {}
}

async function written(/** @type {string} */ path, /** @type {"w" | "wx"} */ flags, /** @type {string} */ text) {
  const file = await open(path, flags, 0o600);
  await file.writeFile(text);
  await file.sync();
  await file.close();
}

function isAlive(/** @type {number} */ owner) {
  try {
    return process.kill(owner, 0);
  } catch (/** @type {any} */ error) {
    return error.code === "EPERM";
  }
}
