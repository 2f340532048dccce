"use strict";
const { spawn } = require("node:child_process");
const { createRequire } = require("node:module");
const path = require("node:path");

/** Returns the path of the program for this system. */
function program() {
  if (process.env.LAZULI_BINARY) {
    return process.env.LAZULI_BINARY;
  }
  const name = `@lazuli-storage/${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/lazuli${process.platform === "win32" ? ".exe" : ""}`);
  } catch {
    throw new Error(`there is no program for ${process.platform}-${process.arch}: the optional package ${name} is not installed`);
  }
}

/** Returns the environment for the program: env, with the program of the package lazuli-search on the path if it is installed. */
function environment(env = process.env) {
  try {
    const from = createRequire(require.resolve("lazuli-search/package.json"));
    const folder = path.dirname(from.resolve(`@lazuli-storage/search-${process.platform}-${process.arch}/package.json`));
    const name = Object.keys(env).find((key) => key.toUpperCase() === "PATH") ?? "PATH"; // Path on Windows
    return { ...env, [name]: [env[name], folder].filter(Boolean).join(path.delimiter) };
  } catch {
    return env;
  }
}

/** A server for tests: on free ports of this machine, without data on disk unless a location is given. */
class Lazuli {
  #child;
  #exited;

  /** The connection string of the development account. */
  connectionString;

  /** Starts a server, and resolves when it serves. */
  static async start(options = {}) {
    const args = ["serve", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0"];
    args.push(...(options.location ? ["--location", options.location] : ["--in-memory"]), ...(options.args ?? []));
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(LAZULI|AZURITE)_/.test(name)));
    const server = new Lazuli();
    const child = spawn(program(), args, { stdio: ["ignore", "pipe", "pipe"], env: environment({ ...env, ...options.env }) });
    server.#child = child;
    server.#exited = new Promise((resolve) => child.once("exit", resolve));
    const kill = () => child.kill();
    process.once("exit", kill);
    child.once("exit", () => process.removeListener("exit", kill));

    let out = "";
    let log = "";
    child.stderr.on("data", (text) => (log = (log + text).slice(-65536)));
    await new Promise((resolve, reject) => {
      const failed = (why) => {
        clearTimeout(timer);
        child.kill();
        reject(new Error(`lazuli did not start: ${why}${log && `\n${log}`}`));
      };
      const timer = setTimeout(() => failed("it was not ready in time"), options.timeout ?? 60_000);
      child.once("error", (err) => failed(err.message));
      child.once("close", (code) => failed(`it exited with ${code}`));
      child.stdout.on("data", (text) => {
        if (server.connectionString) {
          return;
        }
        out += text;
        if (/^Ready/m.test(out)) {
          clearTimeout(timer);
          server.connectionString = /^\s*(\S*AccountName=\S+)/m.exec(out)[1];
          resolve();
        }
      });
    });
    child.stdout.unref?.();
    child.stderr.unref?.();
    child.unref();
    return server;
  }

  /** Stops the server, and resolves when it has ended. */
  async stop() {
    this.#child.ref();
    this.#child.kill();
    await this.#exited;
  }

  /** Stops the server at the end of a block with `await using`. */
  async [Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose")]() {
    await this.stop();
  }
}

module.exports = { Lazuli, environment, program };
