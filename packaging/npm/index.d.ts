export interface StartOptions {
  /** The data folder; without it no data is kept. */
  location?: string;
  /** More arguments of `lazuli serve`. */
  args?: string[];
  /** More environment variables. LAZULI_* and AZURITE_* of this process are not handed on. */
  env?: Record<string, string>;
  /** How long to wait until the server is ready, in milliseconds; 60,000 by default. */
  timeout?: number;
}

/** A server for tests, on free ports of this machine. */
export class Lazuli {
  static start(options?: StartOptions): Promise<Lazuli>;
  /** The connection string of the development account. */
  readonly connectionString: string;
  stop(): Promise<void>;
}

/** The environment for the program, with that of the package lazuli-search on the path if it is installed. */
export function environment(env?: NodeJS.ProcessEnv): NodeJS.ProcessEnv;

/** The path of the program for this system. */
export function program(): string;
