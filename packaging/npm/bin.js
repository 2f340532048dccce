#!/usr/bin/env node
// Runs the program with the arguments of this one, and ends as it ends.
"use strict";
const { spawn } = require("node:child_process");
const { environment, program } = require("./index.js");

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit", env: environment() });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (err) => {
  console.error(`lazuli: ${err.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code ?? 1);
  }
});
