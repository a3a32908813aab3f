// Waits for jest, mocha or vitest to be loaded and adds a reporter to those that the run has.
'use strict';

const Module = require('node:module');
const fs = require('node:fs');
const path = require('node:path');
const { patch } = require('./mocha.cjs');

/** Gives what `jest-config` exports with a `readConfigs` that knows one reporter more. */
const jest = (config) => {
  const ours = path.join(__dirname, 'jest.cjs');
  const read = config.readConfigs;
  if (typeof read !== 'function') return config;
  const readConfigs = async (...args) => {
    const found = await read.apply(config, args);
    try {
      const { globalConfig } = found;
      const reporters = [...(globalConfig.reporters || [['default', {}]]), [ours, {}]];
      return { ...found, globalConfig: Object.freeze({ ...globalConfig, reporters }) };
    } catch {
      return found;
    }
  };
  return new Proxy(config, {
    get: (target, name) => (name === 'readConfigs' ? readConfigs : Reflect.get(target, name)),
  });
};

/** Has vitest get its server from a module of ours; `vite.mjs` says what that does. */
const vitest = (major, minor) => {
  const hook = major > 4 ? 'resolved' : 'hook';
  process.env.LOOPEXEC_VITEST = major > 3 || (major === 3 && minor > 0) ? hook : 'config';
  const argv = process.argv;
  const named = argv.some((arg) => /^--reporters?(=|$)/.test(arg));
  const ours = path.join(__dirname, 'vitest.mjs');
  // The reporters of the command line replace all others in old versions: ours goes there as well.
  if (process.env.LOOPEXEC_VITEST === 'config' && named) {
    const end = argv.indexOf('--');
    argv.splice(end < 0 ? argv.length : end, 0, `--reporter=${ours}`);
    return;
  }
  const loader = require('node:url').pathToFileURL(path.join(__dirname, 'vite.mjs'));
  if (Module.register) Module.register(loader);
};

/** Returns the package that a program belongs to. */
const owner = (main) => {
  let folder = path.dirname(fs.realpathSync(main));
  if (!/[\\/]node_modules[\\/]/.test(`${folder}/`)) return undefined;
  for (let level = 0; level < 6; level += 1) {
    const file = path.join(folder, 'package.json');
    if (fs.existsSync(file)) {
      const found = JSON.parse(fs.readFileSync(file, 'utf8'));
      if (found.name) return found;
    }
    folder = path.dirname(folder);
  }
  return undefined;
};

exports.watch = () => {
  const load = Module._load;
  let config;
  Module._load = function loadWatched(request, ...rest) {
    const loaded = load.call(this, request, ...rest);
    try {
      if (request === 'jest-config') {
        if (!config || config.of !== loaded) config = { of: loaded, wrapped: jest(loaded) };
        return config.wrapped;
      }
      if (/(?:^|[\\/])mocha(?:\.c?js)?$/.test(request)) patch(loaded);
    } catch {
      // The command runs as if we were not there.
    }
    return loaded;
  };
  const main = process.argv[1];
  const found = main && fs.existsSync(main) ? owner(main) : undefined;
  if (found && found.name === 'vitest') {
    const [major, minor] = String(found.version).split('.').map(Number);
    vitest(major, minor);
  }
};
