/** Where an agent keeps its state in a browser: IndexedDB. folder.js has the stores of Node. */

import { Refusal, fail } from "./values.js";

/** @typedef {import("./types/agent.d.ts").Store} Store */

/** @implements {Store} */
export class BrowserStore {
  keepsKeys = true;
  release = () => {};
  /** @type {IDBDatabase | null} */
  database = null;

  /** @param {string} name of the database: another one is another agent */
  constructor(name) {
    this.name = name;
  }

  async open() {
    const alone = await new Promise((resolve) => {
      navigator.locks.request(this.name, { ifAvailable: true }, (lock) => {
        resolve(lock !== null);
        return lock && new Promise((end) => (this.release = () => end(undefined)));
      });
    });
    if (!alone) fail("bad-input", "another tab has this page open: answer there, or close it and load this one again");
    try {
      const opening = indexedDB.open(this.name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("state");
      this.database = await done(opening);
    } catch (error) {
      this.release();
      throw cannotWrite(error);
    }
  }

  async read(/** @type {string} */ name) {
    return this.database && done(this.database.transaction("state").objectStore("state").get(name));
  }

  write(/** @type {string} */ name, /** @type {any} */ value) {
    return this.change((state) => state.put(value, name));
  }

  erase() {
    return this.change((state) => state.clear());
  }

  async change(/** @type {(state: IDBObjectStore) => void} */ change) {
    try {
      const transaction = this.database?.transaction("state", "readwrite", { durability: "strict" });
      if (!transaction) throw new Error("closed");
      await new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onabort = transaction.onerror = () => reject(transaction.error);
        change(transaction.objectStore("state"));
      });
    } catch (error) {
      throw cannotWrite(error);
    }
  }

  close() {
    this.database?.close();
    this.database = null;
    this.release();
  }
}

/** @param {IDBRequest} request @returns {Promise<any>} */
const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

const cannotWrite = (/** @type {any} */ error) =>
  new Refusal("cannot-write", `this browser stores nothing for this page (${error?.name}): its storage is full or forbidden; allow it in the browser's settings, and load the page again. Nothing was sent`); // prettier-ignore
