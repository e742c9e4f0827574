/** Types of what an app uses of agent.js; those of a store are here as well, for own ones. */

/** Where an agent keeps its state: a few documents by name, each written whole and durably. */
export interface Store {
  /** Whether it keeps a CryptoKey as it is, so that none has to be extractable. */
  keepsKeys: boolean;
  /** Takes the state for this process alone; Refusal `bad-input`: another one has it. */
  open(): Promise<void>;
  /** Undefined: there is no such document. */
  read(name: string): Promise<any>;
  /** On disk when it resolves; Refusal `cannot-write`. */
  write(name: string, value: any): Promise<void>;
  /** Removes everything. */
  erase(): Promise<void>;
  close(): void;
}

export interface Rules {
  /** The referee's public key, which is pinned. */
  referee: string;
  /** Lifetime budget, of all answers together. */
  epsilon: number;
  delta?: number;
  /** Kinds that are accepted; by default all that come with Tandem. */
  queries?: string[];
  mechanisms?: string[];
  /** By default all that are plain data. */
  hypotheses?: string[];
}

export interface Person {
  features: Float32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>;
  /** 1 or -1 */
  label: number;
}

export interface Options {
  store: Store;
  /** Address of the referee. */
  address: string;
  rules: Rules;
  /** With which it enrols: an invitation's, or the referee's for individuals. */
  token: string;
  /** Shows the words, by their titles, and asks the person. */
  consent(question: any, words: Record<string, string>): boolean | Promise<boolean>;
  /** Features of the record, which is public. */
  dimension: number;
  /** What these features are; a run about others is refused. */
  names?: any;
  /** May come later (know): what was answered is sent without it. */
  record?: Person;
  /** Address of a relay (RFC 9458), through which the referee is asked, and in no other way. */
  relay?: string;
  /** Who vouches for the person, to whom it gave the code. */
  issuer?: { address: string; code: string; key: { tokens: string; grants: string } };
  /** Address of a witness, which must have seen the history in which a report is counted; given with no relay. */
  witness?: string;
  /** What carries requests. */
  fetch?: (address: string, init: RequestInit) => Promise<Response>;
  /** Seconds to keep trying while nobody answers. */
  patience?: number;
}

/** What a step did: away and failed are of the referee or the store, and nothing was answered. */
export interface State {
  state: "waiting" | "closed" | "answered" | "declined" | "refused" | "finished" | "away" | "failed";
  /** Seconds until the next question. */
  pause?: number;
  /** Of a refusal. */
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
