/** Types of what an app uses of agent.js; those of a store are here as well, for own ones. */

export interface Store {
  /** Whether it keeps a CryptoKey as it is, so that none has to be extractable. */
  keepsKeys: boolean;
  open(): Promise<void>;
  read(name: string): Promise<any>;
  /** On disk when it resolves. */
  write(name: string, value: any): Promise<void>;
  erase(): Promise<void>;
  close(): void;
}

export interface Rules {
  /** The referee's public key, which is pinned. */
  referee: string;
  /** Lifetime budget, of all answers together. */
  epsilon: number;
  delta?: number;
  queries?: string[];
  hypotheses?: string[];
}

export interface Person {
  features: Float32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>;
  /** 1 or -1 */
  label: number;
}

export interface Options {
  store: Store;
  address: string;
  rules: Rules;
  token: string;
  /** Shows the words, by their titles, and asks the person. */
  consent(question: any, words: Record<string, string>): boolean | Promise<boolean>;
  dimension: number;
  names?: any;
  record?: Person;
  relay?: string;
  issuer?: { address: string; code: string; key: { tokens: string; grants: string } };
  witness?: string;
  fetch?: (address: string, init: RequestInit) => Promise<Response>;
  patience?: number;
}

export interface State {
  state: "waiting" | "closed" | "answered" | "declined" | "refused" | "finished" | "away" | "failed";
  pause?: number;
  problem?: string;
  detail?: string;
  answer?: any;
}

export interface Finding {
  run: string;
  question: number;
  status: "included" | "not shown yet" | "not witnessed" | "left out" | "another history";
  why: string;
  witnesses: string[];
}

export class Agent {
  static open(options: Options): Promise<Agent>;
  readonly left: [number, number];
  readonly finished: boolean;
  log: Record<string, unknown>[];
  know(record: Person): void;
  step(): Promise<State>;
  run(how?: { signal?: AbortSignal; onState?: (state: State) => void }): Promise<State>;
  check(): Promise<Finding[]>;
  export(): any;
  import(from: any): Promise<void>;
  erase(): Promise<void>;
  close(): void;
}
