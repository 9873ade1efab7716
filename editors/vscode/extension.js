// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// VS Code's connection to the debugger of the software GPU. The debugged program is the server of the Debug Adapter
// Protocol; this file starts it for "launch" configurations and names its port.

const { spawn } = require('node:child_process');
const vscode = require('vscode');

/** The line of standard error in which a program names its port. */
const WAITS = /waits for a debugger \(DAP\) at [\d.]+:(\d+)/;

/**
 * Starts the program of a configuration.
 *
 * @param configuration The attributes of "launch" in package.json.
 * @param show Takes the program's output, in pieces.
 * @returns {Promise<{child: ChildProcess, port: number}>} Rejected if the program cannot be started, or ends before
 *   it waits for a debugger.
 */
function start(configuration, show) {
  const { program, args = [], cwd, env = {} } = configuration;
  const child = spawn(program, args, {
    cwd,
    // A group of its own, which `stop` ends with the program's children.
    detached: true,
    env: { ...process.env, HSA_SIM_DEBUG: 'dap:0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return new Promise((resolve, reject) => {
    let told = '';
    let isWaiting = false;
    child.stdout.on('data', (text) => show(text.toString()));
    child.stderr.on('data', (text) => {
      show(text.toString());
      if (isWaiting) return;
      told += text;
      const found = WAITS.exec(told);
      if (found && told.indexOf('\n', found.index) >= 0) {
        isWaiting = true;
        resolve({ child, port: Number(found[1]) });
      }
    });
    child.on('error', (error) => reject(new Error(`${program} cannot be started: ${error.message}`)));
    child.on('close', (code, signal) => {
      reject(new Error(`${program} ended (${code ?? signal}) before a kernel waited for the debugger: ${told.trim()}`));
    });
  });
}

/** Ends a program that `start` made, and its children, if it still runs. */
function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGTERM');
  } catch {
    // It has ended meanwhile.
  }
}

class Factory {
  constructor() {
    /** Programs by the sessions that started them. */
    this.children = new Map();
  }

  async createDebugAdapterDescriptor(session) {
    const configuration = session.configuration;
    if (configuration.request === 'attach') return new vscode.DebugAdapterServer(configuration.port);
    const show = (text) => vscode.debug.activeDebugConsole.append(text);
    const { child, port } = await start(configuration, show);
    this.children.set(session.id, child);
    return new vscode.DebugAdapterServer(port);
  }

  /**
   * Ends the program if the session is left before the debugger has ended: the protocol's rule for programs that an
   * editor has started. A program whose last kernel is done goes on to its own end.
   */
  createDebugAdapterTracker(session) {
    let hasEnded = false;
    return {
      onDidSendMessage: (message) => {
        hasEnded ||= message.type === 'event' && message.event === 'terminated';
      },
      onWillStopSession: () => {
        const child = this.children.get(session.id);
        this.children.delete(session.id);
        if (child && !hasEnded) stop(child);
      },
    };
  }

  dispose() {
    for (const child of this.children.values()) stop(child);
  }
}

exports.activate = (context) => {
  const factory = new Factory();
  context.subscriptions.push(
    factory,
    vscode.debug.registerDebugAdapterDescriptorFactory('amdgpu-sim', factory),
    vscode.debug.registerDebugAdapterTrackerFactory('amdgpu-sim', factory),
  );
};
