/** Where an agent keeps its state in a browser: IndexedDB. folder.js has the stores of Node. */

import { fail } from "./values.js";

/** @typedef {import("./types/agent.d.ts").Store} Store */

/** @implements {Store} */
export class BrowserStore {
  keepsKeys = true;
  release = () => {};
  /** @type {IDBDatabase | null} */ database = null;

  /** @param {string} name of the database: another one is another agent */
  constructor(name) {
    this.name = name;
  }

  async open() {
    const alone = await new Promise((resolve, reject) => {
      const held = (/** @type {Lock | null} */ lock) => {
        resolve(lock !== null);
        return lock && new Promise((end) => (this.release = () => end(undefined)));
      };
      navigator.locks.request(this.name, { ifAvailable: true }, held).catch(reject); // where the browser keeps nothing
    }).catch(cannotWrite);
    if (!alone) fail("bad-input", "another tab has this page open: answer there, or close it and load this one again");
    try {
      await this.connect();
    } catch (error) {
      this.release();
      cannotWrite(error);
    }
  }

  async connect() {
    const opening = indexedDB.open(this.name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("state");
    this.database = await done(opening);
  }

  /**
   * Do something with the database; once more, if the browser has closed it, as phones do while a page is not in view.
   * @template T @param {(database: any) => Promise<T>} work @param {boolean} [again] @returns {Promise<T>}
   */
  async with(work, again) {
    try {
      return await work(this.database);
    } catch (/** @type {any} */ error) {
      if (again || !this.database || error?.name === "QuotaExceededError") cannotWrite(error);
      await this.connect().catch(() => {});
      return this.with(work, true);
    }
  }

  read(/** @type {string} */ name) {
    return this.with(async (database) => done(database.transaction("state").objectStore("state").get(name)));
  }

  write = (/** @type {string} */ name, /** @type {any} */ value) => this.change((state) => state.put(value, name));

  erase = () => this.change((state) => state.clear());

  change(/** @type {(state: IDBObjectStore) => void} */ change) {
    return this.with(async (database) => {
      const transaction = database.transaction("state", "readwrite", { durability: "strict" });
      change(transaction.objectStore("state"));
      await done(transaction);
    });
  }

  close() {
    this.database?.close();
    this.database = null;
    this.release();
  }
}

/** What comes of a request, or of a transaction. @param {any} work @returns {Promise<any>} */
const done = (work) =>
  new Promise((resolve, reject) => {
    work.onsuccess = work.oncomplete = () => resolve(work.result);
    work.onerror = work.onabort = () => reject(work.error);
  });

/** @type {(error: any) => never} */
const cannotWrite = (error) =>
  fail("cannot-write", `this browser stores nothing for this page (${error?.name}): its storage is full or forbidden; allow it in the browser's settings`); // prettier-ignore
