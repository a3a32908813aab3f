// Listens to the events of mocha's runner, whichever reporter the run has.
'use strict';

const lines = require('./lines.cjs');

const names = (test) => test.titlePath().map(lines.clean);

/** Listens to one run. */
const listen = (runner, options) => {
  // A dry run passes every test without running it.
  if ((options && options.dryRun) || (runner._opts && runner._opts.dryRun)) return;
  const emit = lines.open('mocha');
  if (!emit) return;
  const open = new Map();
  let ended = false;
  const own = (test) => ({ f: test.file || '', path: names(test) });
  const key = (test) => JSON.stringify(own(test));
  const failed = (test, error) => {
    const text = lines.clean((error && (error.stack || error.message)) || error || '');
    return { k: 'result', ...own(test), o: 'failed', m: text, l: lines.place(text, test.file) };
  };
  const guarded = (event, note) => {
    runner.on(event, (...args) => {
      try {
        note(...args);
      } catch {
        // Other listeners go on.
      }
    });
  };
  guarded('start', () => {
    runner.suite.eachTest((test) => {
      const wanted = runner._grep ? runner._grep.test(test.fullTitle()) !== Boolean(runner._invert) : true;
      if (wanted) emit({ k: 'collect', ...own(test) });
    });
  });
  guarded('pass', (test) => open.set(key(test), { k: 'result', ...own(test), o: 'passed' }));
  guarded('pending', (test) => open.set(key(test), { k: 'result', ...own(test), o: 'skipped' }));
  guarded('fail', (test, error) => {
    const record = failed(test, error);
    // A hook has no end of its own.
    if (test.type === 'hook') emit(record);
    else open.set(key(test), record);
  });
  guarded('test end', (test) => {
    const record = open.get(key(test));
    open.delete(key(test));
    if (record) emit(record);
  });
  guarded('end', () => {
    for (const record of open.values()) emit(record);
    open.clear();
    // An error outside of any test ends a run twice.
    if (!ended) emit({ k: 'end' });
    ended = true;
  });
};

/** Wraps `Mocha.prototype.run`, which makes runner and reporter. */
exports.patch = (Mocha) => {
  const prototype = typeof Mocha === 'function' && Mocha.prototype;
  if (!prototype || typeof prototype.run !== 'function' || typeof prototype.addFile !== 'function') return;
  if (Object.hasOwn(prototype, '_loopexec')) return;
  Object.defineProperty(prototype, '_loopexec', { value: true });
  const { run } = prototype;
  prototype.run = function runWatched(...args) {
    const Reporter = this._reporter;
    if (typeof Reporter !== 'function') return run.apply(this, args);
    class Watched extends Reporter {
      constructor(runner, options) {
        listen(runner, options);
        super(runner, options);
      }
    }
    this._reporter = Watched;
    try {
      return run.apply(this, args);
    } finally {
      this._reporter = Reporter;
    }
  };
};
