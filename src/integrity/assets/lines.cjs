// Writes what a JavaScript test runner says as JSON lines, for `jsonl` to read.
// Every record is written at once, so that it survives whatever the process does next.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const OWNER = 'LOOPEXEC_RESULTS_NODE';
// Taken now: code under test may exchange both.
const environment = process.env;
const { writeSync } = fs;

/** Returns a file name of our own; names sort in the order in which their runs began. */
exports.file = (kind) => {
  const stamp = String(BigInt(Date.now()) * 1000000n + (process.hrtime.bigint() % 1000000n));
  return path.join(environment.LOOPEXEC_RESULTS, `${stamp.padStart(20, '0')}-${process.pid}-${kind}.jsonl`);
};

/** Returns one line of text that JSON can hold and that is not too long. */
exports.clean = (text) => {
  const whole = String(text);
  const cut = whole.length > 6000 ? `${whole.slice(0, 4000)}\n[...]\n${whole.slice(-1900)}` : whole;
  return cut.toWellFormed ? cut.toWellFormed() : cut.replace(/[\ud800-\udfff]/g, '\ufffd');
};

/** Returns the line of a file that a stack points at; mocha writes paths as seen from its folder. */
exports.place = (text, file) => {
  if (!file) return undefined;
  for (const name of [file, path.relative(process.cwd(), file)]) {
    const at = text.indexOf(`${name}:`);
    const line = at < 0 ? NaN : parseInt(text.slice(at + name.length + 1), 10);
    if (line > 0) return line;
  }
  return undefined;
};

/**
 * Returns a function that writes one record, or undefined where another run already reports: tests
 * that run a runner must not look like tests.
 */
exports.open = (kind) => {
  try {
    const owner = environment[OWNER];
    if (!environment.LOOPEXEC_RESULTS || (owner && owner !== String(process.pid))) return undefined;
    environment[OWNER] = String(process.pid);
    const fd = fs.openSync(exports.file(kind), 'ax', 0o644);
    const emit = (record) => {
      try {
        let data = Buffer.from(`${JSON.stringify(record)}\n`);
        while (data.length > 0) data = data.subarray(writeSync(fd, data));
      } catch {
        // The run goes on without us.
      }
    };
    emit({ k: 'start', runner: kind, cwd: process.cwd() });
    return emit;
  } catch {
    return undefined;
  }
};
