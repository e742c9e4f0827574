/**
 * Where an agent keeps its state in a browser: IndexedDB. folder.js has the stores of Node.
 * @import { Store } from "./types/agent.d.ts"
 */

import { Refusal, fail } from "./values.js";

/** @implements {Store} */
export class BrowserStore {
  keepsKeys = true;
  release = () => {};
  /** @type {IDBDatabase | undefined} */ database;

  /** @param {string} name of the database: another one is another agent */
  constructor(name) {
    this.name = name;
  }

  async open() {
    try {
      const alone = await new Promise((resolve, reject) => {
        const locked = (/** @type {Lock | null} */ lock) => {
          resolve(lock !== null);
          return lock && new Promise((end) => (this.release = () => end(undefined)));
        };
        navigator.locks.request(this.name, { ifAvailable: true }, locked).catch(reject); // where nothing is kept
      });
      if (!alone) fail("bad-input", "another tab has this page open: answer there, or close it and load this one again");
      await this.connect();
    } catch (error) {
      this.release();
      cannotWrite(error);
    }
  }

  async connect() {
    const opening = indexedDB.open(this.name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("state");
    await done(opening);
    this.database = opening.result;
  }

  read = (/** @type {string} */ name) => this.with("readonly", (state) => state.get(name));
  /** @param {string} name @param {any} value */
  write = (name, value) => this.with("readwrite", (state) => state.put(value, name));
  erase = () => this.with("readwrite", (state) => state.clear());

  /**
   * Do something with the state; once more, if the browser has closed it, as phones do while a page is not in view.
   * @type {(mode: IDBTransactionMode, work: (state: IDBObjectStore) => IDBRequest, again?: boolean) => Promise<any>}
   */
  async with(mode, work, again) {
    const database = /** @type {IDBDatabase} */ (this.database);
    try {
      const transaction = database.transaction("state", mode, { durability: "strict" });
      const request = work(transaction.objectStore("state"));
      await done(transaction);
      return request.result;
    } catch (/** @type {any} */ error) {
      if (again || !this.database || error?.name === "QuotaExceededError") cannotWrite(error);
      await this.connect().catch(() => {});
      return this.with(mode, work, true);
    }
  }

  close() {
    this.database?.close();
    this.database = undefined;
    this.release();
  }
}

/** Wait for the end of a request, or of a transaction. @param {any} work */
const done = (work) =>
  new Promise((resolve, reject) => {
    work.onsuccess = work.oncomplete = resolve;
    work.onerror = work.onabort = () => reject(work.error);
  });

/** @type {(error: any) => never} */
function cannotWrite(error) {
  if (error instanceof Refusal) throw error;
  fail("cannot-write", `this browser stores nothing for this page (${error?.name}): its storage is full or forbidden; allow it in the browser's settings`); // prettier-ignore
}
