// A reporter of node's test runner that writes JSON lines, for `jsonl` to read.
import { readFileSync } from 'node:fs';

const clean = (text) => {
  const whole = String(text);
  const cut = whole.length > 6000 ? `${whole.slice(0, 4000)}\n[...]\n${whole.slice(-1900)}` : whole;
  return cut.toWellFormed ? cut.toWellFormed() : cut.replace(/[\ud800-\udfff]/g, '\ufffd');
};

const explain = (error) => {
  if (!error) return undefined;
  const cause = error.cause ?? error;
  const stack = typeof cause === 'object' && cause !== null && cause.stack;
  return clean(stack || cause.message || cause);
};

const usesRunner = (file) => {
  try {
    return /['"]node:test['"]/.test(readFileSync(file, 'utf8'));
  } catch {
    return false;
  }
};

export default async function* report(source) {
  const names = [];
  const line = (record) => `${JSON.stringify(record)}\n`;
  yield line({ k: 'start', runner: 'node', cwd: process.cwd() });
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      names.length = data.nesting;
      names.push(clean(data.name));
    } else if (type === 'test:pass' || type === 'test:fail') {
      const path = [...names.slice(0, data.nesting), clean(data.name)];
      const failed = type === 'test:fail';
      const error = data.details?.error;
      const suite = data.details?.type === 'suite';
      const whole = data.nesting === 0 && data.file && data.name.endsWith(data.file.split('/').pop()) &&
        data.line === 1 && (data.column === 1 || data.column === undefined);
      const own = whole ? { f: data.file ?? data.name, path: [] } : { f: data.file ?? '', path };
      if (suite && (!failed || error?.failureType === 'subtestsFailed')) continue;
      if (whole && !failed && usesRunner(own.f)) {
        yield line({ k: 'problem', m: `incomplete: ${own.f} uses the test runner and ended without reporting a test.` });
      }
      // A failing `todo` does not fail the run.
      const skipped = (data.skip !== undefined && data.skip !== false) ||
        (failed && data.todo !== undefined && data.todo !== false);
      const o = skipped ? 'skipped' : failed ? 'failed' : 'passed';
      yield line({ k: 'result', ...own, o, m: failed ? explain(error) : undefined, l: data.line });
    }
  }
  yield line({ k: 'end' });
}
