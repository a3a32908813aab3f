// A reporter of jest that writes JSON lines.
'use strict';

const lines = require('./lines.cjs');

const OUTCOMES = { passed: 'passed', failed: 'failed', pending: 'skipped', skipped: 'skipped', todo: 'skipped', disabled: 'skipped' };

module.exports = class LoopexecReporter {
  constructor(config) {
    this.bail = Boolean(config && config.bail);
  }

  onRunStart() {
    this.emit = lines.open('jest') || (() => {});
  }

  onTestResult(test, result) {
    try {
      this.report(result);
    } catch {
      // Other reporters go on.
    }
  }

  report(result) {
    const f = result.testFilePath;
    if (result.testExecError || (result.failureMessage && result.testResults.length === 0)) {
      this.emit({ k: 'broken', m: lines.clean(`${f}: ${result.failureMessage || ''}`) });
    }
    for (const one of result.testResults) {
      const path = [...one.ancestorTitles, one.title].map(lines.clean);
      // A test that is expected to fail has the status `passed`.
      const o = one.failing && one.status === 'passed' ? 'skipped' : OUTCOMES[one.status];
      const record = { k: 'result', f, path, o };
      if (o === 'failed') {
        record.m = lines.clean(one.failureMessages.join('\n'));
        record.l = lines.place(record.m, f);
      } else if (o === 'passed' && typeof one.numPassingAsserts === 'number') {
        record.a = one.numPassingAsserts;
      }
      this.emit(o ? record : { ...record, k: 'collect' });
    }
  }

  onRunComplete(contexts, results) {
    // Code under test that leaves the process brings jest here with suites that have not run.
    const done = results.numPassedTestSuites + results.numFailedTestSuites + results.numPendingTestSuites;
    const bailed = this.bail && results.numFailedTests + results.numRuntimeErrorTestSuites > 0;
    if (done < results.numTotalTestSuites && !bailed) return;
    this.emit({ k: 'end' });
  }
};
