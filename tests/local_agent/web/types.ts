// The modules are what the types of the package say that they are.
import * as agent from "../../../local_agent/web/agent.js";
import * as folder from "../../../local_agent/web/folder.js";
import * as store from "../../../local_agent/web/store.js";
import type * as typed from "../../../local_agent/web/types/agent.d.ts";
import type * as folderTyped from "../../../local_agent/web/types/folder.d.ts";
import type * as storeTyped from "../../../local_agent/web/types/store.d.ts";

export const open: (options: typed.Options) => Promise<typed.Agent> = (options) => agent.Agent.open(options);
export const inFolder: folderTyped.FolderStore = new folder.FolderStore("folder");
export const inMemory: folderTyped.MemoryStore = new folder.MemoryStore();
export const inBrowser: storeTyped.BrowserStore = new store.BrowserStore("name");
