// Loaded into every node process: where one is about to run tests, they are reported to us as well.
// The reporters that the command has, or the version's default, stay as they are.
'use strict';

(() => {
  try {
    const env = process.env;
    const folder = env.LOOPEXEC_RESULTS;
    if (!folder || env.LOOPEXEC_RESULTS_NODE || env.NODE_TEST_CONTEXT) return;
    const { isMainThread } = require('node:worker_threads');
    const [major] = process.versions.node.split('.').map(Number);
    if (!isMainThread || major < 18) return;
    require('./runners.cjs').watch();
    // Node's own runner takes reporters as options only: such a process is started again.
    const options = process.execArgv;
    if (major < 20) return;
    const named = (name) => options.some((o) => o === name || o.startsWith(`${name}=`));
    if (named('--watch') || named('-e') || named('--eval') || named('-p') || named('-i')) return;
    const fs = require('node:fs');
    const path = require('node:path');
    if (!named('--test')) {
      // A file that is run directly and uses the test runner reports the same way.
      const main = process.argv[1];
      if (!main || !/\.[cm]?[jt]s$/.test(main)) return;
      const stat = fs.statSync(main, { throwIfNoEntry: false });
      if (!stat || !stat.isFile() || stat.size > 1 << 20) return;
      if (/[\\/]node_modules[\\/]/.test(fs.realpathSync(main))) return;
      if (!/(?:from|require\(|import)\s*\(?\s*['"]node:test['"]/.test(fs.readFileSync(main, 'utf8'))) return;
    }
    const stamp = String(BigInt(Date.now()) * 1000000n + (process.hrtime.bigint() % 1000000n));
    const file = path.join(folder, `${stamp.padStart(20, '0')}-${process.pid}-node.jsonl`);
    const reporter = require('node:url').pathToFileURL(path.join(__dirname, 'reporter.mjs')).href;
    const more = [];
    if (!named('--test-reporter')) {
      // With two reporters neither has a default.
      const text = process.stdout.isTTY || major >= 23 ? 'spec' : 'tap';
      more.push(`--test-reporter=${text}`, '--test-reporter-destination=stdout');
    } else if (!named('--test-reporter-destination')) {
      more.push('--test-reporter-destination=stdout');
    }
    more.push(`--test-reporter=${reporter}`, `--test-reporter-destination=${file}`);
    const ended = require('node:child_process').spawnSync(
      process.execPath,
      [...options, ...more, ...process.argv.slice(1)],
      { stdio: 'inherit', argv0: process.argv0, env: { ...env, LOOPEXEC_RESULTS_NODE: String(process.pid) } },
    );
    if (ended.error) return;
    if (ended.signal) process.kill(process.pid, ended.signal);
    process.exit(ended.status === null ? 1 : ended.status);
  } catch {
    // The command runs as if we were not there.
  }
})();
