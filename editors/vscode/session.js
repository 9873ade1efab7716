// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The extension's test, without VS Code: `vscode` is a stub, and the client is that of VS Code's own debug adapter
// tests. A session with the kernel of sim/check-kernel/tests/compiled/debug.c, by "launch" and by "attach".
//
//     npm install --no-package-lock && CHECK_KERNEL=…/check-kernel KERNEL=…/debug.co npm test

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const Module = require('node:module');
const path = require('node:path');
const { DebugClient } = require('@vscode/debugadapter-testsupport');

const { CHECK_KERNEL = 'check-kernel', KERNEL = 'debug.co' } = process.env;
const SOURCE = path.resolve(__dirname, '../../sim/check-kernel/tests/compiled/debug.c');
const ARGUMENTS = [KERNEL, 'in_place', '--grid', '1', '--block', '64', '--arg', 'buffer:256=iota-u32', '--dap', '0'];

/** Output of the programs. */
let shown = '';
let factory;
const vscode = {
  DebugAdapterServer: class {
    constructor(port) {
      this.port = port;
    }
  },
  debug: {
    activeDebugConsole: { append: (text) => (shown += text) },
    registerDebugAdapterDescriptorFactory: (type, made) => {
      assert.equal(type, require('./package.json').contributes.debuggers[0].type);
      factory = made;
    },
    registerDebugAdapterTrackerFactory: (type, made) => assert.equal(made, factory),
  },
};
const load = Module._load;
Module._load = (name, ...rest) => (name === 'vscode' ? vscode : load(name, ...rest));
require('./extension.js').activate({ subscriptions: [] });

/** Arguments of VS Code 1.80's `initialize`. */
const INITIALIZE = {
  clientID: 'vscode',
  clientName: 'Visual Studio Code',
  adapterID: 'amdgpu-sim',
  pathFormat: 'path',
  linesStartAt1: true,
  columnsStartAt1: true,
  supportsVariableType: true,
  supportsVariablePaging: true,
  supportsRunInTerminalRequest: true,
  locale: 'en',
  supportsProgressReporting: true,
  supportsInvalidatedEvent: true,
  supportsMemoryReferences: true,
  supportsArgsCanBeInterpretedByShell: true,
  supportsMemoryEvent: true,
  supportsStartDebuggingRequest: true,
};

/** Connects to the server and sends the messages that VS Code sends until the program runs to its first stop. */
async function begin(configuration, lines) {
  const session = { id: configuration.name, configuration };
  const { port } = await factory.createDebugAdapterDescriptor(session);
  const client = new DebugClient('', '', 'amdgpu-sim');
  client.defaultTimeout = 20000;
  await client.start(port);
  const initialized = client.waitForEvent('initialized');
  const { body } = await client.initializeRequest(INITIALIZE);
  const started = client.send(configuration.request, configuration);
  await initialized;
  const source = { name: 'debug.c', path: SOURCE };
  const breakpoints = lines.map((line) => ({ line }));
  const set = await client.setBreakpointsRequest({ source, lines, breakpoints, sourceModified: false });
  assert.equal(set.body.breakpoints.length, lines.length);
  if (body.supportsFunctionBreakpoints) await client.setFunctionBreakpointsRequest({ breakpoints: [] });
  if (body.supportsInstructionBreakpoints) await client.send('setInstructionBreakpoints', { breakpoints: [] });
  const filters = body.exceptionBreakpointFilters.filter((it) => it.default).map((it) => it.filter);
  await client.setExceptionBreakpointsRequest({ filters });
  const stopped = client.waitForEvent('stopped');
  await client.configurationDoneRequest();
  await started;
  return { client, tracker: factory.createDebugAdapterTracker(session), session, stop: (await stopped).body };
}

/** Sends a request that moves a wave; returns the event of its stop. */
async function move(client, command, threadId) {
  const stopped = client.waitForEvent('stopped');
  await client.send(command, { threadId });
  return (await stopped).body;
}

/** The line at which a wave stands. */
async function line(client, threadId) {
  await client.threadsRequest();
  const { body } = await client.stackTraceRequest({ threadId, startFrame: 0, levels: 20 });
  return body.stackFrames[0].line;
}

async function launches() {
  const configuration = {
    name: 'launch', type: 'amdgpu-sim', request: 'launch', program: CHECK_KERNEL, args: ARGUMENTS,
  };
  const { client, tracker, session, stop } = await begin(configuration, [13]);
  assert.equal(stop.reason, 'breakpoint');
  const { body: { threads } } = await client.threadsRequest();
  assert.deepEqual(threads.map((it) => it.name), [0, 1].map((wave) => `workgroup (0, 0, 0) wave ${wave}`));
  const { body: stack } = await client.stackTraceRequest({ threadId: stop.threadId, startFrame: 0, levels: 20 });
  assert.deepEqual([stack.stackFrames[0].line, stack.stackFrames[0].source.path], [13, SOURCE]);
  const { body: { scopes } } = await client.scopesRequest({ frameId: stack.stackFrames[0].id });
  const vectors = scopes.find((it) => it.name === 'Vector registers').variablesReference;
  const { body: { variables } } = await client.variablesRequest({ variablesReference: vectors });
  const { variablesReference, indexedVariables } = variables.find((it) => it.name === 'v0');
  const { body: lanes } = await client.variablesRequest({
    variablesReference, filter: 'indexed', start: 0, count: indexedVariables,
  });
  assert.equal(lanes.variables.length, 32);
  assert.match(lanes.variables[5].value, /^0x5 /);
  assert.equal((await move(client, 'next', stop.threadId)).reason, 'step');
  const next = await line(client, stop.threadId);
  assert.ok(next > 13, `line ${next}`);
  await move(client, 'stepBack', stop.threadId);
  assert.ok((await line(client, stop.threadId)) < next);
  // Wave 1 comes to the line, too.
  assert.equal((await move(client, 'continue', stop.threadId)).reason, 'breakpoint');
  await client.setBreakpointsRequest({ source: { path: SOURCE }, lines: [], breakpoints: [] });
  const child = factory.children.get(session.id);
  const ended = once(child, 'close');
  const terminated = client.waitForEvent('terminated');
  await client.send('continue', { threadId: stop.threadId });
  tracker.onDidSendMessage(await terminated);
  await client.disconnectRequest({ restart: false });
  tracker.onWillStopSession();
  assert.deepEqual(await ended, [0, null], shown);
  assert.match(shown, /nothing found by all/);
}

async function terminates() {
  const configuration = {
    name: 'terminate', type: 'amdgpu-sim', request: 'launch', program: CHECK_KERNEL, args: ARGUMENTS,
    stopOnEntry: true,
  };
  const { client, tracker, session, stop } = await begin(configuration, []);
  assert.equal(stop.reason, 'entry');
  const ended = once(factory.children.get(session.id), 'close');
  const terminated = client.waitForEvent('terminated');
  await client.send('terminate', { restart: false });
  tracker.onDidSendMessage(await terminated);
  await client.disconnectRequest({ restart: false });
  tracker.onWillStopSession();
  const [code, signal] = await ended;
  assert.deepEqual([code !== 0, signal], [true, null], shown);
  assert.match(shown, /ended by the debugger/);
}

/** A program of the user's, left at a breakpoint: it goes on. */
async function attaches() {
  const child = spawn(CHECK_KERNEL, ARGUMENTS, { stdio: ['ignore', 'pipe', 'pipe'] });
  let told = '';
  const port = await new Promise((resolve) => {
    child.stderr.on('data', (text) => {
      told += text;
      const found = /:(\d+)\n/.exec(told);
      if (found) resolve(Number(found[1]));
    });
  });
  const ended = once(child, 'close');
  const configuration = { name: 'attach', type: 'amdgpu-sim', request: 'attach', port };
  const { client, tracker, stop } = await begin(configuration, [17]);
  assert.deepEqual([stop.reason, await line(client, stop.threadId)], ['breakpoint', 17]);
  await client.disconnectRequest({ restart: false, terminateDebuggee: false });
  tracker.onWillStopSession();
  assert.deepEqual(await ended, [0, null]);
  assert.match(told, /nothing found by all/);
}

async function refuses() {
  const configuration = { name: 'wrong', request: 'launch', program: CHECK_KERNEL, args: ['missing.co'] };
  const session = { id: 'wrong', configuration };
  await assert.rejects(factory.createDebugAdapterDescriptor(session), /ended \(\d+\) before .*required arguments/s);
  configuration.program = '/missing';
  await assert.rejects(factory.createDebugAdapterDescriptor(session), /\/missing cannot be started/);
}

(async () => {
  for (const test of [launches, terminates, attaches, refuses]) {
    shown = '';
    await test();
    console.log(`${test.name}: passed`);
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
