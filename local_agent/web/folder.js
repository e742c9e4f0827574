/**
 * An agent's state for Node: in a folder, one JSON file a document, for its owner alone; or in memory, for tests.
 * @import { Store } from "./types/agent.d.ts"
 */

import { link, mkdir, open, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Refusal, fail } from "./values.js";

/** @type {Set<string>} folders that this process works in */
const held = new Set();

/** @implements {Store} */
export class FolderStore {
  keepsKeys = false;

  constructor(/** @type {string} */ folder) {
    this.folder = folder;
    this.held = ""; // its lock, while it holds the folder
  }

  /** Hold the folder by the lock with the highest number: whoever finds its owner dead makes the next one. */
  async open() {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const own = join(this.folder, `.lock-${process.pid}-${crypto.randomUUID()}`);
    try {
      await written(own, String(process.pid)); // whole, before it has the name that others look for
      while (!(await this.taken(own))); // another process was faster
      held.add(this.folder);
    } catch (error) {
      this.cannotWrite(error);
    } finally {
      await rm(own, { force: true }).catch(() => {});
    }
  }

  /** Take the next lock, if it then is the last one. @param {string} own @returns {Promise<boolean>} */
  async taken(own) {
    const last = await this.last();
    const owner = Number(await readFile(this.lock(last), "utf8").catch(() => "0"));
    if (held.has(this.folder) || (owner > 0 && owner !== process.pid && isAlive(owner)))
      fail("bad-input", `process ${owner} works in ${this.folder}: end it, or name another folder`);
    try {
      await link(own, this.lock(last + 1));
    } catch (/** @type {any} */ error) {
      if (error.code === "EEXIST") return false;
      throw error;
    }
    if ((await this.last()) > last + 1) return false; // what was seen was old
    this.held = this.lock(last + 1);
    await rm(this.lock(last), { force: true });
    return true;
  }

  lock = (/** @type {number} */ number) => join(this.folder, `lock-${number}`);
  path = (/** @type {string} */ name) => join(this.folder, `${name}.json`);

  async last() {
    const numbers = (await readdir(this.folder)).map((name) => Number(/^lock-(\d+)$/.exec(name)?.[1] ?? 0));
    return Math.max(0, ...numbers);
  }

  async read(/** @type {string} */ name) {
    const path = this.path(name);
    try {
      return JSON.parse(await readFile(path, "utf8"));
    } catch (/** @type {any} */ error) {
      if (error.code === "ENOENT") return undefined;
      const why = error.code ? `cannot be read (${error.code})` : "was damaged: put it back if you have a copy";
      fail("bad-data", `${path} ${why}. Nothing was sent`);
    }
  }

  async write(/** @type {string} */ name, /** @type {any} */ value) {
    try {
      await written(this.path(`.${name}`), JSON.stringify(value));
      await rename(this.path(`.${name}`), this.path(name));
      const folder = await open(this.folder, "r");
      await folder.sync();
      await folder.close();
    } catch (error) {
      this.cannotWrite(error);
    }
  }

  async erase() {
    for (const name of await readdir(this.folder)) if (name.endsWith(".json")) await rm(join(this.folder, name));
  }

  close() {
    if (held.delete(this.folder)) writeFile(this.held, "0").catch(() => {}); // the last lock stays, and is nobody's
  }

  cannotWrite(/** @type {any} */ error) {
    if (error instanceof Refusal) throw error;
    fail("cannot-write", `nothing can be stored in ${this.folder} (${error.code}): nothing was sent`);
  }
}

/** @implements {Store} */
export class MemoryStore {
  keepsKeys = true;
  /** @type {Map<string, any>} */ documents = new Map();
  async open() {}
  read = async (/** @type {string} */ name) => this.documents.get(name);
  write = async (/** @type {string} */ name, /** @type {any} */ value) => void this.documents.set(name, value);
  erase = async () => this.documents.clear();
  close() {}
}

async function written(/** @type {string} */ path, /** @type {string} */ text) {
  const file = await open(path, "w", 0o600);
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
