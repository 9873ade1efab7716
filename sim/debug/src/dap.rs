// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A server of the Debug Adapter Protocol (1.70), for one client: VS Code and other editors.
//!
//! Threads of the protocol are the waves of the stopped workgroup. A thread reads requests. While a wave is stopped
//! they are served on its thread. While waves run, the reader answers those about the run itself, and stops the next
//! wave for the others, which then goes on by itself.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use sim_wave::Stopped;

use crate::breakpoint::{Breakpoint, Place};
use crate::code::Code;
use crate::console;
use crate::session::{Core, Debugger, Frontend, Motion, Reason, Unit};
use crate::values::{Expression, Form, Value, number};
use crate::views::{self, Space};

/// Most bytes of a message.
const MOST: usize = 16 << 20;

/// Time that a client has to disconnect after the last kernel. VS Code takes a connection that ends before for a crash.
const FAREWELL: Duration = Duration::from_secs(2);

/// Reads a message; `None` at the end of the stream.
fn receive(input: &mut impl BufRead) -> io::Result<Option<Json>> {
    let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let mut length = None;
    loop {
        let mut line = String::new();
        if input.take(1 << 10).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" if length.is_some() => break,
            header => {
                if let Some(text) = header.strip_prefix("Content-Length:") {
                    let count = text.trim().parse().ok().filter(|count| *count <= MOST);
                    length = Some(count.ok_or_else(|| wrong("Content-Length is not a number up to 16777216"))?);
                }
            }
        }
    }
    let mut body = vec![0; length.unwrap_or_default()];
    input.read_exact(&mut body)?;
    serde_json::from_slice(&body).map(Some).map_err(|error| wrong(&error.to_string()))
}

/// The way to the client, which numbers the messages.
struct Output {
    stream: Mutex<(TcpStream, u64)>,
}

impl Output {
    /// Sends a message. A client that has gone does not matter: the reader sees its end.
    fn send(&self, mut message: Json) {
        let (stream, sequence) = &mut *self.stream.lock();
        *sequence += 1;
        message["seq"] = json!(*sequence);
        let body = message.to_string();
        let _ = write!(stream, "Content-Length: {}\r\n\r\n{body}", body.len());
    }

    fn event(&self, event: &str, body: Json) {
        self.send(json!({ "type": "event", "event": event, "body": body }));
    }

    fn answer(&self, request: &Json, result: Result<Json, String>) {
        let mut message = json!({
            "type": "response", "request_seq": request["seq"], "command": request["command"], "success": result.is_ok(),
        });
        match result {
            Ok(body) => message["body"] = body,
            Err(text) => {
                message["message"] = json!(text);
                message["body"] = json!({ "error": { "id": 1, "format": text } });
            }
        }
        self.send(message);
    }
}

/// State that the reader shares with waves' threads.
#[derive(Default)]
struct Shared {
    /// True while a wave is stopped and serves requests; changes under the lock, under which requests are passed on.
    is_stopped: Mutex<bool>,
    /// The user has asked for a stop.
    pauses: AtomicBool,
    /// The client has gone.
    is_gone: AtomicBool,
}

/// The frontend.
struct Adapter {
    output: Arc<Output>,
    requests: Receiver<Json>,
    shared: Arc<Shared>,
    /// Numbers of breakpoints by the request that sets them, and by file.
    set: HashMap<String, Vec<u32>>,
    /// Breakpoints that the client takes for unverified.
    pending: Vec<u32>,
}

/// Waits for a client at a port of this machine, and for its breakpoints. Port 0 is any free one; the port is told on
/// standard error.
///
/// # Errors
/// When the port cannot be had, or the connection fails.
pub fn listen(port: u16) -> io::Result<Debugger> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let _ = writeln!(io::stderr(), "hsa-sim: waits for a debugger (DAP) at {}", listener.local_addr()?);
    let (stream, _) = listener.accept()?;
    let pause = Arc::new(AtomicBool::new(false));
    let output = Arc::new(Output { stream: Mutex::new((stream.try_clone()?, 0)) });
    let shared = Arc::new(Shared { is_stopped: Mutex::new(true), ..Shared::default() });
    let (sender, requests) = mpsc::channel();
    let reader = Reader { output: output.clone(), shared: shared.clone(), pause: pause.clone(), sender };
    thread::Builder::new().name("hsa-sim-dap".into()).spawn(move || reader.run(stream))?;
    let mut adapter = Adapter { output, requests, shared, set: HashMap::new(), pending: Vec::new() };
    let mut core = Core::default();
    let stops_at_entry = adapter.configure(&mut core)?;
    *adapter.shared.is_stopped.lock() = false;
    Ok(Debugger::new(Box::new(adapter), core, stops_at_entry, pause))
}

struct Reader {
    output: Arc<Output>,
    shared: Arc<Shared>,
    /// Stops the next wave.
    pause: Arc<AtomicBool>,
    sender: Sender<Json>,
}

impl Reader {
    fn run(self, stream: TcpStream) {
        let mut input = BufReader::new(stream);
        loop {
            match receive(&mut input) {
                Ok(Some(request)) if request["type"] == "request" => {
                    let is_last = request["command"] == "disconnect";
                    self.pass(request);
                    if is_last {
                        return;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    let _ = writeln!(io::stderr(), "hsa-sim: debugger: {error}; the program goes on without it");
                    break;
                }
            }
        }
        self.shared.is_gone.store(true, Ordering::Relaxed);
        self.pause.store(true, Ordering::Relaxed);
    }

    fn pass(&self, request: Json) {
        let is_stopped = self.shared.is_stopped.lock();
        if !*is_stopped {
            match request["command"].as_str() {
                // No wave stands still whose name could be told.
                Some("threads") => {
                    let threads = json!([{ "id": 1, "name": "GPU" }]);
                    return self.output.answer(&request, Ok(json!({ "threads": threads })));
                }
                Some("disconnect") if request["arguments"]["terminateDebuggee"] != true => {
                    self.shared.is_gone.store(true, Ordering::Relaxed);
                    self.pause.store(true, Ordering::Relaxed);
                    return self.output.answer(&request, Ok(Json::Null));
                }
                Some("pause") => {
                    self.shared.pauses.store(true, Ordering::Relaxed);
                    self.pause.store(true, Ordering::Relaxed);
                    return self.output.answer(&request, Ok(Json::Null));
                }
                _ => self.pause.store(true, Ordering::Relaxed),
            }
        }
        let _ = self.sender.send(request);
    }
}

/// Continuation after a request.
enum Next {
    Wait,
    Go(Motion),
}

impl Adapter {
    /// Serves requests until the client has set its breakpoints. Returns true if the first instruction stops.
    fn configure(&mut self, core: &mut Core) -> io::Result<bool> {
        let mut stops_at_entry = false;
        loop {
            let gone =
                |_| io::Error::new(io::ErrorKind::ConnectionAborted, "the debugger left before configurationDone");
            let request = self.requests.recv().map_err(gone)?;
            let arguments = &request["arguments"];
            let result = match request["command"].as_str().unwrap_or_default() {
                "initialize" => {
                    self.output.answer(&request, Ok(capabilities()));
                    self.output.event("initialized", Json::Null);
                    continue;
                }
                "launch" | "attach" => {
                    stops_at_entry = arguments["stopOnEntry"] == true;
                    Ok(Json::Null)
                }
                "configurationDone" => {
                    self.output.answer(&request, Ok(Json::Null));
                    return Ok(stops_at_entry);
                }
                "threads" => Ok(json!({ "threads": [{ "id": 1, "name": "GPU" }] })),
                "disconnect" | "terminate" => {
                    self.output.answer(&request, Ok(Json::Null));
                    return Err(io::Error::other("the debugger has disconnected"));
                }
                command => self
                    .breakpoints(core, command, arguments)
                    .unwrap_or_else(|| Err(format!("{command}: nothing runs yet"))),
            };
            self.output.answer(&request, result);
        }
    }

    /// Serves a request that sets breakpoints; `None` for others.
    fn breakpoints(&mut self, core: &mut Core, command: &str, arguments: &Json) -> Option<Result<Json, String>> {
        let list = |key: &str| arguments[key].as_array().cloned().unwrap_or_default();
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let path = text(&arguments["source"]["path"]);
        let (key, items) = match command {
            "setBreakpoints" => (format!("lines of {path}"), list("breakpoints")),
            "setInstructionBreakpoints" => (command.to_owned(), list("breakpoints")),
            "setFunctionBreakpoints" => (command.to_owned(), list("breakpoints")),
            "setExceptionBreakpoints" => (command.to_owned(), list("filters")),
            _ => return None,
        };
        let old = self.set.remove(&key).unwrap_or_default();
        core.retain(|it| !old.contains(&it.number));
        self.pending.retain(|number| !old.contains(number));
        let mut numbers = Vec::new();
        let mut answers = Vec::new();
        for item in &items {
            let place = match command {
                "setBreakpoints" => {
                    Ok(Place::Line(Some(path.clone()), item["line"].as_u64().unwrap_or_default() as u32))
                }
                "setInstructionBreakpoints" => {
                    let offset = item["offset"].as_i64().unwrap_or_default();
                    number(&text(&item["instructionReference"]))
                        .map(|pc| Place::Address(pc.wrapping_add_signed(offset)))
                }
                "setFunctionBreakpoints" => Ok(Place::Kernel(text(&item["name"]))),
                _ if item == "finding" => Ok(Place::Finding),
                _ => Err(format!("no filter {item}")),
            };
            let condition = match item["condition"].as_str().map(str::trim).filter(|text| !text.is_empty()) {
                Some(text) => Expression::parse(text).map(|parsed| Some((parsed, text.to_owned()))),
                None => Ok(None),
            };
            let (place, condition) = match (place, condition) {
                (Ok(place), Ok(condition)) => (place, condition),
                (Err(error), _) | (_, Err(error)) => {
                    answers.push(json!({ "verified": false, "message": error }));
                    continue;
                }
            };
            let mut breakpoint = Breakpoint::new(place);
            breakpoint.condition = condition;
            let number = core.add(breakpoint);
            numbers.push(number);
            let answer = describe(core, number, core.code.as_deref());
            if answer["verified"] == false {
                self.pending.push(number);
            }
            answers.push(answer);
        }
        self.set.insert(key, numbers);
        Some(Ok(json!({ "breakpoints": answers })))
    }

    /// Serves a request of a stopped workgroup.
    fn serve(&mut self, core: &mut Core, at: &mut dyn Stopped, request: &Json) -> (Result<Json, String>, Next) {
        let arguments = &request["arguments"];
        let command = request["command"].as_str().unwrap_or_default();
        if let Some(result) = self.breakpoints(core, command, arguments) {
            return (result, Next::Wait);
        }
        let by_instruction = arguments["granularity"] == "instruction";
        let unit = |unit: Unit| if by_instruction { Unit::Instruction } else { unit };
        let motion = match command {
            "continue" => Some((Motion::Continue, json!({ "allThreadsContinued": true }))),
            "next" => Some((Motion::Step(unit(Unit::LineOver), 1), Json::Null)),
            "stepIn" => Some((Motion::Step(unit(Unit::Line), 1), Json::Null)),
            "stepBack" => Some((Motion::Back(unit(Unit::Line), 1), Json::Null)),
            "reverseContinue" => Some((Motion::ContinueBack, Json::Null)),
            "terminate" => Some((Motion::Kill, Json::Null)),
            "disconnect" if arguments["terminateDebuggee"] == true => Some((Motion::Kill, Json::Null)),
            "disconnect" => Some((Motion::Detach, Json::Null)),
            _ => None,
        };
        if let Some((motion, body)) = motion {
            if arguments["threadId"].is_u64() {
                match wave_of(&arguments["threadId"], at) {
                    Ok(wave) => core.wave = wave,
                    Err(error) => return (Err(error), Next::Wait),
                }
            }
            return (Ok(body), Next::Go(motion));
        }
        (look(core, at, command, arguments), Next::Wait)
    }

    /// Sends the event of a stop.
    fn tell(&self, core: &Core, reason: &Reason) {
        let (kind, numbers) = match reason {
            Reason::Entry => ("entry", None),
            Reason::Breakpoints(numbers) => ("breakpoint", Some(numbers)),
            Reason::Finding(_) | Reason::Fault(_) => ("exception", None),
            Reason::Step | Reason::Told(_) => ("step", None),
            Reason::Pause => ("pause", None),
        };
        let text = views::reason(reason);
        self.output.event(
            "stopped",
            json!({
                "reason": kind, "description": text, "text": text, "threadId": core.wave + 1, "allThreadsStopped": true,
                "hitBreakpointIds": numbers.cloned().unwrap_or_default(),
            }),
        );
    }
}

impl Frontend for Adapter {
    fn began(&mut self, core: &Core, code: &Code) {
        for number in std::mem::take(&mut self.pending) {
            let breakpoint = describe(core, number, Some(code));
            if breakpoint["verified"] == true {
                self.output.event("breakpoint", json!({ "reason": "changed", "breakpoint": breakpoint }));
            } else {
                self.pending.push(number);
            }
        }
    }

    fn stopped(&mut self, core: &mut Core, reason: &Reason, at: &mut dyn Stopped) -> Motion {
        let has_asked = self.shared.pauses.swap(false, Ordering::Relaxed);
        let is_for_requests = *reason == Reason::Pause && !has_asked;
        *self.shared.is_stopped.lock() = true;
        if !is_for_requests && !core.is_again {
            self.tell(core, reason);
        }
        loop {
            if self.shared.is_gone.load(Ordering::Relaxed) {
                return Motion::Detach;
            }
            let request = if is_for_requests {
                // When all are served the wave goes on. The lock keeps the reader from passing one on meanwhile.
                let mut is_stopped = self.shared.is_stopped.lock();
                let Ok(request) = self.requests.try_recv() else {
                    *is_stopped = false;
                    return Motion::Resume;
                };
                request
            } else {
                // The reader ends when the client goes.
                let Ok(request) = self.requests.recv() else { return Motion::Detach };
                request
            };
            let (result, next) = self.serve(core, at, &request);
            let is_motion = matches!(next, Next::Go(_));
            // Before the answer, after which the client takes waves for running.
            *self.shared.is_stopped.lock() = !is_motion;
            self.output.answer(&request, result);
            if let Next::Go(motion) = next {
                return motion;
            }
        }
    }

    fn refused(&mut self, text: &str) {
        self.output.event("output", json!({ "category": "console", "output": format!("{text}\n") }));
        // The client takes the wave for running.
        self.output.event(
            "stopped",
            json!({ "reason": "step", "description": text, "text": text, "threadId": 1, "allThreadsStopped": true }),
        );
    }

    fn ended(&mut self) {
        self.output.event("terminated", Json::Null);
        let end = Instant::now() + FAREWELL;
        // The reader, and with it the channel, ends with the client.
        while let Ok(request) = self.requests.recv_timeout(end.saturating_duration_since(Instant::now())) {
            let result = match request["command"] == "disconnect" {
                true => Ok(Json::Null),
                false => Err("the kernels have ended".to_owned()),
            };
            self.output.answer(&request, result);
        }
    }
}

fn capabilities() -> Json {
    json!({
        "supportsConfigurationDoneRequest": true,
        "supportsFunctionBreakpoints": true,
        "supportsInstructionBreakpoints": true,
        "supportsConditionalBreakpoints": true,
        "supportsSteppingGranularity": true,
        "supportsStepBack": true,
        "supportsDisassembleRequest": true,
        "supportsReadMemoryRequest": true,
        "supportsTerminateRequest": true,
        "supportTerminateDebuggee": true,
        "supportsEvaluateForHovers": true,
        "exceptionBreakpointFilters": [{ "filter": "finding", "label": "Findings of the checks", "default": true }],
    })
}

/// A breakpoint as the protocol has it, in the kernel that is known.
fn describe(core: &Core, number: u32, code: Option<&Code>) -> Json {
    let Some(breakpoint) = core.breakpoints.iter().find(|it| it.number == number) else { return Json::Null };
    if matches!(breakpoint.place, Place::Kernel(_) | Place::Finding) {
        return json!({ "id": number, "verified": true });
    }
    let pc = code.and_then(|code| breakpoint.resolve(code));
    let Some(pc) = pc else {
        return json!({ "id": number, "verified": false, "message": "no kernel so far has an instruction there" });
    };
    let mut answer = json!({ "id": number, "verified": true, "instructionReference": format!("{pc:#x}") });
    if let Some(position) = code.and_then(|code| code.position(pc)) {
        answer["line"] = json!(position.line);
        answer["source"] = json!({ "name": position.file_name(), "path": &*position.file });
    }
    answer
}

/// The wave of a thread's number.
fn wave_of(thread: &Json, at: &dyn Stopped) -> Result<u32, String> {
    let wave = thread.as_u64().and_then(|thread| u32::try_from(thread.checked_sub(1)?).ok());
    wave.filter(|wave| *wave < at.waves()).ok_or_else(|| format!("no thread {thread}; there are {} waves", at.waves()))
}

/// References of variables: kinds of registers of a wave, and lanes of a vector register.
const KINDS: [&str; 2] = ["Scalar registers", "Vector registers"];
const LANES: u64 = 1 << 20;
const REGISTERS: u64 = 1 << 12;

/// Serves a request that only looks.
fn look(core: &mut Core, at: &mut dyn Stopped, command: &str, arguments: &Json) -> Result<Json, String> {
    let count = |key: &str| arguments[key].as_u64();
    Ok(match command {
        "threads" => {
            let group = views::workgroup(at.workgroup());
            let thread = |wave: u32| json!({ "id": wave + 1, "name": format!("workgroup {group} wave {wave}") });
            json!({ "threads": (0..at.waves()).map(thread).collect::<Vec<_>>() })
        }
        "stackTrace" => {
            let wave = wave_of(&arguments["threadId"], at)?;
            let pc = at.pc(wave);
            let name = core.code.as_ref().map_or("", |code| &code.name);
            let mut frame = json!({
                "id": wave + 1, "name": name, "line": 0, "column": 0, "instructionPointerReference": format!("{pc:#x}"),
            });
            if let Some(position) = core.position(at, wave) {
                frame["line"] = json!(position.line);
                frame["source"] = json!({ "name": position.file_name(), "path": &*position.file });
            }
            json!({ "stackFrames": [frame], "totalFrames": 1 })
        }
        "scopes" => {
            let wave = u64::from(wave_of(&arguments["frameId"], at)?);
            let scope = |(kind, name): (usize, &str)| {
                let reference = 1 + wave * KINDS.len() as u64 + kind as u64;
                let hint = "registers";
                json!({ "name": name, "presentationHint": hint, "variablesReference": reference, "expensive": false })
            };
            json!({ "scopes": KINDS.into_iter().enumerate().map(scope).collect::<Vec<_>>() })
        }
        "variables" => json!({ "variables": variables(core, at, count("variablesReference").unwrap_or_default())? }),
        "evaluate" => {
            if arguments["frameId"].is_u64() {
                core.wave = wave_of(&arguments["frameId"], at)?;
            }
            let text = arguments["expression"].as_str().unwrap_or_default();
            let result = match arguments["context"] == "repl" {
                true => console::evaluate(core, at, text)?,
                false => {
                    let expression = Expression::parse(text)?;
                    let form = expression.form.unwrap_or(Form::Hex);
                    views::value(&expression.value(at, core.wave)?, form, views::exec(at, core.wave))
                }
            };
            json!({ "result": result.trim_end(), "variablesReference": 0 })
        }
        "disassemble" => disassemble(core, arguments)?,
        "readMemory" => {
            let text = arguments["memoryReference"].as_str().unwrap_or_default();
            let (space, address) = views::address(core, at, text)?;
            let address = address.wrapping_add_signed(arguments["offset"].as_i64().unwrap_or_default());
            let size = count("count").unwrap_or_default();
            let shown = format!("{}{address:#x}", space.prefix());
            match views::read(core, at, (space, address), size) {
                Ok(bytes) => json!({ "address": shown, "data": base64(&bytes) }),
                Err(_) if space == Space::Global => json!({ "address": shown, "unreadableBytes": size }),
                Err(error) => return Err(error),
            }
        }
        "pause" => Json::Null,
        _ => return Err(format!("{command} is not supported")),
    })
}

fn variables(core: &Core, at: &dyn Stopped, reference: u64) -> Result<Vec<Json>, String> {
    let unknown = || format!("no variables {reference}");
    let evaluate = |wave: u32, name: &str| Expression::parse(&format!("${name}"))?.value(at, wave);
    if let Some(lanes) = reference.checked_sub(LANES) {
        let wave = wave_of(&json!(lanes / REGISTERS + 1), at)?;
        let register = usize::try_from(lanes % REGISTERS).unwrap_or_default();
        let exec = views::exec(at, wave);
        let lane = |(lane, value): (usize, &u32)| {
            let forms = [Form::Hex, Form::Signed, Form::Float].map(|form| form.text((*value).into(), 32));
            let mark = if exec >> lane & 1 == 0 { " (inactive)" } else { "" };
            json!({ "name": format!("[{lane}]"), "value": forms.join("  ") + mark, "variablesReference": 0 })
        };
        return Ok(at.vector(wave, register).ok_or_else(unknown)?.iter().enumerate().map(lane).collect());
    }
    let reference = reference.checked_sub(1).ok_or_else(unknown)?;
    let wave = wave_of(&json!(reference / KINDS.len() as u64 + 1), at)?;
    let mut variables = Vec::new();
    if reference % KINDS.len() as u64 == 0 {
        for name in views::scalars() {
            let value = views::value(&evaluate(wave, &name)?, Form::Hex, 0);
            variables.push(
                json!({ "name": name, "value": value, "evaluateName": format!("${name}"), "variablesReference": 0 }),
            );
        }
        return Ok(variables);
    }
    for (register, name) in views::vectors(at).enumerate() {
        let Value::Lanes(values, _) = evaluate(wave, &name)? else { continue };
        let lane = core.lane as usize;
        let value = format!("lane {lane}: {}", Form::Hex.text(values[lane], 32));
        let lanes = LANES + u64::from(wave) * REGISTERS + register as u64;
        variables.push(json!({
            "name": name, "value": value, "evaluateName": format!("${name}"), "variablesReference": lanes,
            "indexedVariables": values.len(),
        }));
    }
    Ok(variables)
}

fn disassemble(core: &Core, arguments: &Json) -> Result<Json, String> {
    let code = core.code.as_deref().ok_or("no kernel")?;
    let whole = |key: &str| arguments[key].as_i64().unwrap_or_default();
    let address =
        number(arguments["memoryReference"].as_str().unwrap_or_default())?.wrapping_add_signed(whole("offset"));
    let at = code.instructions.partition_point(|it| it.pc < address) as i64;
    let first = at.saturating_add(whole("instructionOffset"));
    let count = whole("instructionCount").clamp(0, 100_000);
    let instruction = |index: i64| {
        let Some(it) = usize::try_from(index).ok().and_then(|index| code.instructions.get(index)) else {
            // As many as are asked for, whatever they are.
            let address = code.instructions.first().map_or(0, |first| first.pc).wrapping_add_signed(4 * index);
            return json!({ "address": format!("{address:#x}"), "instruction": "", "presentationHint": "invalid" });
        };
        let mut answer = json!({ "address": format!("{:#x}", it.pc), "instruction": it.text });
        if let Some(position) = &it.position {
            answer["line"] = json!(position.line);
            answer["location"] = json!({ "name": position.file_name(), "path": &*position.file });
        }
        answer
    };
    let instructions: Vec<_> = (first..first.saturating_add(count)).map(instruction).collect();
    Ok(json!({ "instructions": instructions }))
}

/// Base64 with padding (RFC 4648, 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(part.get(at).copied().unwrap_or_default()));
        for at in 0..4 {
            let digit = char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]);
            text.push(if at <= part.len() { digit } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded() {
        let texts = [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foob", "Zm9vYg==")];
        for (bytes, text) in texts {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn messages_have_a_length() {
        let mut input = &b"Content-Length: 8\r\nOther: 1\r\n\r\n{\"a\": 1}Content-Length: 2\r\n\r\n{}"[..];
        assert_eq!(receive(&mut input).unwrap(), Some(json!({ "a": 1 })));
        assert_eq!(receive(&mut input).unwrap(), Some(json!({})));
        assert_eq!(receive(&mut input).unwrap(), None);
        for wrong in ["Content-Length: x\r\n\r\n", "Content-Length: 99999999999\r\n\r\n", "Content-Length: 2\r\n\r\n{"]
        {
            assert!(receive(&mut wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
