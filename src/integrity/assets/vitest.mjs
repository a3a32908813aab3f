// A reporter of vitest that writes JSON lines.
import { createRequire } from 'node:module';

const lines = createRequire(import.meta.url)('./lines.cjs');

const OUTCOMES = { pass: 'passed', passed: 'passed', fail: 'failed', failed: 'failed', skip: 'skipped', skipped: 'skipped', todo: 'skipped' };

const say = (errors) => lines.clean((errors ?? []).map((error) => error.stack || error.message || String(error)).join('\n'));

const lineIn = (errors, file, text) => {
  for (const error of errors ?? []) {
    const frame = (error.stacks ?? []).find((one) => one.file === file);
    if (frame) return frame.line;
  }
  return lines.place(text, file);
};

export default class LoopexecReporter {
  onInit(vitest) {
    this.ignores = Boolean(vitest?.config?.dangerouslyIgnoreUnhandledErrors);
  }

  // Version 2 says `onPathsCollected`, later ones `onTestRunStart`.
  onPathsCollected() {
    this.begin();
  }

  onTestRunStart() {
    this.begin();
  }

  onFinished(files, errors) {
    this.end(files ?? [], errors);
  }

  onTestRunEnd(modules, errors) {
    this.end(modules.map((module) => module.task).filter(Boolean), errors);
  }

  begin() {
    this.emit ??= lines.open('vitest') ?? (() => {});
  }

  end(files, errors) {
    try {
      // Version 3 says both.
      if (this.ended) return;
      this.ended = true;
      this.begin();
      for (const file of files) this.file(file);
      if (errors && errors.length > 0 && !this.ignores) this.emit({ k: 'broken', m: say(errors) });
      this.emit({ k: 'end' });
    } catch {
      // Other reporters go on.
    }
  }

  file(file) {
    const f = file.filepath;
    if (file.result?.state === 'fail' && file.result.errors?.length > 0) {
      this.emit({ k: 'broken', m: lines.clean(`${f}: ${say(file.result.errors)}`) });
    }
    const stack = [...file.tasks].reverse().map((task) => [task, []]);
    while (stack.length > 0) {
      const [task, above] = stack.pop();
      const path = [...above, lines.clean(task.name)];
      const state = OUTCOMES[task.result?.state ?? (task.mode === 'skip' || task.mode === 'todo' ? task.mode : '')];
      if (task.tasks) {
        // A hook of the suite failed: its tests were not reached.
        if (state === 'failed' && task.result.errors?.length > 0) this.result(f, [...path, '(hook)'], 'failed', task.result.errors);
        for (const inner of [...task.tasks].reverse()) stack.push([inner, path]);
      } else {
        // A test that is expected to fail has the state `pass`.
        this.result(f, path, task.fails && state === 'passed' ? 'skipped' : state, task.result?.errors);
      }
    }
  }

  result(f, path, o, errors) {
    if (!o) return this.emit({ k: 'collect', f, path });
    if (o !== 'failed') return this.emit({ k: 'result', f, path, o });
    const m = say(errors);
    return this.emit({ k: 'result', f, path, o, m, l: lineIn(errors, f, m) });
  }
}
