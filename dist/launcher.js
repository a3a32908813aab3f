// What main.js and post.js share: finding the binary, starting it, telling what went wrong.
//
// Nothing here reads what the loop does. The binary takes the inputs, the state and the paths of the
// command files from its environment; no input ever passes a shell.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawn } = require('node:child_process');

// The action's own version, and that of the binary it runs by default.
const VERSION = '0.1.0';

const TARGETS = {
  'linux x64': 'x86_64-unknown-linux-musl',
  'linux arm64': 'aarch64-unknown-linux-musl',
  'darwin x64': 'x86_64-apple-darwin',
  'darwin arm64': 'aarch64-apple-darwin',
};

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

// The class of everything that has to be in order before a loop can start.
const NOT_IN_ORDER = 30;

const MOST_BYTES = 256 * 1024 * 1024;
const DOWNLOAD_MS = 5 * 60 * 1000;
const ATTEMPTS = 3;

// A refusal in words that the user can act on.
class Refusal extends Error {}

// A failure that another attempt may not have.
class Passing extends Error {}

// Tells in the log and as an annotation; a text of any origin stays the text of this one command.
function tell(level, text) {
  const data = String(text).replace(/%/g, '%25').replace(/\r/g, '%0D').replace(/\n/g, '%0A');
  process.stdout.write(`::${level} title=loopexec::${data}\n`);
}

// Returns an input without the white space around it; empty when it was not given.
function input(name) {
  return (process.env[`INPUT_${name.toUpperCase()}`] || '').trim();
}

// Returns the name that the release for a machine goes by.
function target(platform, arch) {
  if (platform === 'win32') {
    throw new Refusal('loopexec does not run on Windows; use a runner with Linux or macOS');
  }
  const found = TARGETS[`${platform} ${arch}`];
  if (!found) {
    throw new Refusal(`loopexec has no release for ${platform} on ${arch}; build it and give binary-path`);
  }
  return found;
}

// Returns the checksum this action holds for a release.
function checksum(version, triple, file = path.join(__dirname, 'checksums.json')) {
  const known = JSON.parse(fs.readFileSync(file, 'utf8'));
  const release = Object.hasOwn(known, version) ? known[version] : {};
  const found = Object.hasOwn(release, triple) ? release[triple] : undefined;
  if (typeof found !== 'string' || !/^[0-9a-f]{64}$/.test(found)) {
    throw new Refusal(
      `this action holds no checksum for loopexec ${version} (${triple}), so it runs no download: ` +
        'use a released version of the action, or build loopexec and give binary-path',
    );
  }
  return found;
}

// Returns the digest of a file; undefined when there is none that can be read.
function digest(file) {
  try {
    return crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex');
  } catch {
    return undefined;
  }
}

// Writes what a URL gives into an open file; throws unless it has the checksum.
async function receive(url, sha256, file) {
  const hash = crypto.createHash('sha256');
  let bytes = 0;
  try {
    const response = await fetch(url, { redirect: 'follow', signal: AbortSignal.timeout(DOWNLOAD_MS) });
    if (response.status === 429 || response.status >= 500) throw new Passing(`status ${response.status}`);
    if (!response.ok) throw new Refusal(`${url} answers with status ${response.status}`);
    for await (const chunk of response.body) {
      bytes += chunk.length;
      if (bytes > MOST_BYTES) throw new Refusal(`${url} is larger than any release of loopexec`);
      hash.update(chunk);
      // One write may take less than it is given.
      fs.writeFileSync(file, chunk);
    }
  } catch (error) {
    // All but our own words and a full disk comes from the network.
    if (error instanceof Refusal || error.syscall === 'write') throw error;
    throw new Passing(error.cause?.message || error.message);
  }
  const found = hash.digest('hex');
  if (found !== sha256) {
    throw new Refusal(`${url} has the checksum ${found}, not the ${sha256} this action holds; it is not run`);
  }
}

// Takes one attempt at a download; `to` is there only once the checksum held.
async function attemptDownload(url, sha256, to) {
  const beside = `${to}.${crypto.randomUUID()}`;
  const file = fs.openSync(beside, 'wx', 0o600);
  try {
    await receive(url, sha256, file);
    fs.fchmodSync(file, 0o755);
  } catch (error) {
    fs.rmSync(beside, { force: true });
    throw error;
  } finally {
    fs.closeSync(file);
  }
  fs.renameSync(beside, to);
}

// Downloads a release to `to`; what does not have the checksum never gets there, nor becomes executable.
async function download(url, sha256, to) {
  // Newer versions of Node alone can; without it fetch knows no proxy.
  require('node:http').setGlobalProxyFromEnv?.();
  fs.mkdirSync(path.dirname(to), { recursive: true });
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await attemptDownload(url, sha256, to);
    } catch (error) {
      if (!(error instanceof Passing)) throw error;
      if (attempt === ATTEMPTS) {
        throw new Refusal(`${url} cannot be downloaded: ${error.message}; with binary-path nothing has to be`);
      }
      await new Promise((done) => setTimeout(done, 1000 * 2 ** attempt));
    }
  }
}

// Returns where a release comes from: this very action's repository.
function address(version, triple) {
  const repository = process.env.GITHUB_ACTION_REPOSITORY || '';
  if (!/^[A-Za-z0-9_.-]+\/[A-Za-z0-9_.-]+$/.test(repository)) {
    throw new Refusal('an action used by its path has no releases of its own; build loopexec and give binary-path');
  }
  return `https://github.com/${repository}/releases/download/v${version}/loopexec-${triple}`;
}

// Returns a path that the workflow names, if it can be run at all.
function named(file) {
  const found = path.resolve(file);
  try {
    fs.accessSync(found, fs.constants.X_OK);
    if (!fs.statSync(found).isFile()) throw new Error('it is not a file');
  } catch (error) {
    throw new Refusal(`the binary ${found} cannot be run: ${error.message}`);
  }
  return found;
}

// Returns the first folder that can be written to; one that only reads may still hold a release.
function writable(folders) {
  for (const folder of folders) {
    try {
      fs.mkdirSync(folder, { recursive: true });
      fs.accessSync(folder, fs.constants.W_OK);
      return folder;
    } catch {
      continue;
    }
  }
  throw new Refusal('neither the runner\'s tool cache nor its temporary folder can be written to; give binary-path');
}

// Returns the path of the binary: the one named, else the release this action holds the checksum of.
async function binary() {
  if (process.platform === 'win32') target(process.platform, process.arch);
  const wanted = input('binary-path') || process.env.LOOPEXEC_BINARY;
  if (wanted) return named(wanted);
  const triple = target(process.platform, process.arch);
  const version = (input('version') || VERSION).replace(/^v/, '');
  if (!/^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$/.test(version)) {
    throw new Refusal(`${JSON.stringify(version)} is no version of loopexec; one looks like ${VERSION}`);
  }
  const sha256 = checksum(version, triple);
  const roots = [process.env.RUNNER_TOOL_CACHE, process.env.RUNNER_TEMP].filter(Boolean);
  const folders = roots.map((root) => path.join(root, 'loopexec', version, process.arch));
  // Other jobs may write to the cache: what lies there is held to the checksum as well.
  const cached = folders.map((folder) => path.join(folder, 'loopexec')).find((file) => digest(file) === sha256);
  if (cached) return cached;
  const to = path.join(writable(folders), 'loopexec');
  await download(address(version, triple), sha256, to);
  return to;
}

// Keeps a value for the post step.
function save(key, value) {
  if (!process.env.GITHUB_STATE) return;
  const end = `ghadelimiter_${crypto.randomUUID()}`;
  try {
    const before = fs.statSync(process.env.GITHUB_STATE, { throwIfNoEntry: false });
    try {
      fs.appendFileSync(process.env.GITHUB_STATE, `${key}<<${end}\n${value}\n${end}\n`);
    } catch (error) {
      // Half a block would fail the step.
      if (before?.isFile()) fs.truncateSync(process.env.GITHUB_STATE, before.size);
      throw error;
    }
  } catch (error) {
    tell('warning', `the post step cannot finish this run if it is killed: ${error.message}`);
  }
}

// Starts the binary, passes signals on at once, and returns the code it ended with.
function start(file, args) {
  return new Promise((resolve, reject) => {
    let child;
    // The runner signals this process alone. Signals wait until this turn is over, so none comes before the child.
    const forward = (signal) => child?.kill(signal);
    for (const signal of SIGNALS) process.on(signal, forward);
    child = spawn(file, args, { stdio: 'inherit' });
    child.on('error', (error) => {
      if (child.pid === undefined) reject(new Refusal(`${file} cannot be started: ${error.message}`));
    });
    child.on('close', (code, signal) => resolve(signal ? 128 + os.constants.signals[signal] : code));
  });
}

// The step: its exit code is the binary's.
async function run() {
  try {
    const file = await binary();
    save('loopexec_binary', file);
    save('loopexec_sha256', digest(file) || '');
    process.exitCode = await start(file, ['ci', '--action']);
  } catch (error) {
    tell('error', error instanceof Refusal ? error.message : error.stack);
    process.exitCode = NOT_IN_ORDER;
  }
}

// The post step: never fails the job, as the step before has said how the loop ended.
async function finish() {
  const file = process.env.STATE_loopexec_binary;
  // Without a run's folder there is nothing that could be unfinished.
  if (!file || !process.env.STATE_loopexec_run_dir) return;
  // An agent may have put another program in its place, and this step has the token.
  if (digest(file) !== process.env.STATE_loopexec_sha256) {
    tell('warning', `what the run left undone is not completed: ${file} is not the program the step was run with`);
    return;
  }
  try {
    const code = await start(file, ['ci', '--action', '--finish']);
    if (code !== 0) tell('warning', `what the run left undone could not all be completed (code ${code})`);
  } catch (error) {
    tell('warning', error.message);
  }
}

module.exports = { TARGETS, VERSION, address, checksum, download, finish, run, target };
